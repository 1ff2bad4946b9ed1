"""A reference simulator of a Kafka cluster for transactions. Start reading in ARCHITECTURE.md."""
