"""Move readers and writers from one cluster to the other: the conductor of `kafka-mirror switch`."""
