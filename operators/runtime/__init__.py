"""Where operators run: the local runner, a bounded pass and a streaming query on Spark."""
