"""Nexmark's windows, on this library, on Spark's own operators and on Flink: the same bids, on one machine.

    python -m benchmarks.nexmark [--bids N] [--seconds N] [--queries NAME...] [--systems NAME...]

`bids` makes the bids, `queries` has what is computed of them, `streams` runs it on Spark, `flink.py` on Flink.
"""
