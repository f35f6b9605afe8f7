"""The same work done by other systems, each in a process of its own."""
