"""What Spark calls in a streaming query: the processor of a bucket, and its journal in Spark's state store."""
