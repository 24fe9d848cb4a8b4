"""Conduct `kafka-mirror switch`: move consumers and producers from one cluster to the other."""
