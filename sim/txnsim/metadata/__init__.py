"""The immutable image of the cluster, and what its records and configs mean. Pure.

- ``image``: brokers, topics, leaders, epochs, features, configs.
- ``partition_changes``: changes of the ISR and the leader of one partition.
- ``configs``: of topics and brokers, by ``config_keys``: a table, and how values are written;
  ``group_configs``, ``client_metrics_configs``: of others.
- ``client_metrics``, ``quotas``: KIP-714, KIP-546.
"""
