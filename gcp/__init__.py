"""Training jobs on Google Cloud's Vertex AI: `python -m gcp.submit`. docs/gcp.md says how."""
