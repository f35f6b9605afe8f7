"""The same workloads on other systems, each in its own process."""
