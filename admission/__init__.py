"""May it enter: pure decisions over a request, the state and the time. No Kafka, no clock, no I/O."""
