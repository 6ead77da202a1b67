"""The sub-commands of `kiln` that speak to Kafka."""
