"""Rows beside those of other systems: recorded ones of Kafka Streams, and those of live peers."""
