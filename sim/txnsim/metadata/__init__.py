"""The immutable image of the cluster's metadata, and the rules of its configs. Pure.

- ``image``: brokers, topics, leaders, epochs, features, configs.
- ``partition_changes``: changes of the ISR and the leader of one partition.
- ``settings_table``: a row for each setting of Kafka; ``config_keys``: those of a release.
- ``configs``: configs of topics and brokers;
  ``group_configs``, ``client_metrics_configs``: configs of groups and of subscriptions to client
  metrics.
- ``client_metrics``: metrics that clients push (KIP-714). ``quotas``: client quotas (KIP-546).
"""
