"""The image: built from the Dockerfile, and run as a cluster runs it. `make image` does both; it needs root."""
