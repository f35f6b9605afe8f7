"""How do windows from a topic to a topic compare with Kafka Streams: rows, speed, delay, bytes of state, a restart?"""
