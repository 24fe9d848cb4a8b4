"""Decide from names and settings: topics, remote names, configs, ACLs, recreated topics. Pure."""
