"""Random cases, played by this library and by other systems that run here and now: `python -m tests.conformance.live`."""
