"""Read a connect-mirror-maker.properties into settings."""
