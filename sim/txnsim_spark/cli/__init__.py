"""Commands that read Kafka's files and streams with Spark; ``commands`` lists them."""
