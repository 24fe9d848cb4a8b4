"""Show the lag inspector, a read-only Streamlit app on top of mirror.lag."""
