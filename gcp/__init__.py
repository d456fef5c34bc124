"""Training jobs on Google Cloud's Vertex AI: `python -m gcp.submit`. See docs/gcp.md."""
