"""A broker of Apache Kafka for tests, benchmarks and the demo, and the jars that it and Spark's connector need."""
