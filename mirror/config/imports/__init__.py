"""Translate connectors of MirrorMaker 2 that run in Kafka Connect, or under Strimzi, into a properties file."""
