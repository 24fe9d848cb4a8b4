"""The lag inspector."""
