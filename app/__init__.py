"""The lag inspector: a read-only Streamlit app over mirror.lag."""
