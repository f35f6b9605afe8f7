"""The frames that an operator reads: their columns and event times, and how their rows go to buckets."""
