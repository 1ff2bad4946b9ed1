"""One broker, composed, and the paths of the requests that touch its logs.

Kafka's counterparts: BrokerServer, ReplicaManager, KafkaApis.
"""
