"""A page about a checkpoint."""
