"""One file per command: its help, its options and its function."""
