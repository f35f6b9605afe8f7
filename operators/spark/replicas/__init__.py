"""The local copies of buckets: the processes that have them, and how workers ask these."""
