"""A streaming query: the processor that Spark calls with a bucket, what it does with it, and its journal in Spark's state."""
