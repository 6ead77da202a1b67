"""A real Apache Kafka for development, demo and tests."""
