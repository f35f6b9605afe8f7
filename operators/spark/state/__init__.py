"""State and checkpoints from outside of a query: history, checks before a start, open windows."""
