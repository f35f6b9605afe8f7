"""Where operators run, without Spark: programs, state over one durable store, and the local runner."""
