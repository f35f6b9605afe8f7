"""State at rest: looked at, summed up, and moved to another query."""
