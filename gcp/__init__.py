"""Training jobs on Google Cloud's Vertex AI: `seed_rl submit`. See docs/gcp.md."""
