"""Where operators run, without Spark: operators bound to frames, state over one durable store, and the local runner."""
