"""Translate MirrorMaker 2 connectors of Kafka Connect or Strimzi into a properties file."""
