"""One file per command: its help, its options, and what it does."""
