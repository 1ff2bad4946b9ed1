"""Commands between brokers as Kafka's bytes, both ways."""
