"""Build the image and what docker-compose.yml needs, and start them with podman. As root on Debian; only in nightly runs."""
