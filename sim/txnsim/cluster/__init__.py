"""A broker and its cluster.

- ``image``: immutable metadata; ``controller``: pure decisions over it; ``configs``: what configs
mean.
- ``metadata``: the shell that publishes images.
- ``broker``: one broker, composed of ``replicas`` (what it hosts and leads), ``produce``,
``fetch``,
  ``verification`` (KIP-890) and the transaction coordinator.
- ``peers``: typed requests between brokers; ``purgatory``: parked work.
"""
