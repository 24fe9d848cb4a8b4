"""Vocabulary and measuring: what is counted, and how it reaches Prometheus."""
