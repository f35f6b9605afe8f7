"""Operators on Spark: one pass over a bounded frame, and a streaming query with a state store for each bucket."""
