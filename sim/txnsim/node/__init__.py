"""Parts of every node of the cluster. The controller is a node, too.

- ``peers``: typed requests between brokers.
- ``controller_node``: the shell of the controller's decisions; ``metadata_publisher`` publishes its
  images, ``image_intake`` applies them at a broker, ``broker_lifecycle`` registers a broker with
  it.
- ``coordinator_loading``: a coordinator's load, after its broker has become the leader.
- ``purgatory``: parked operations, by key and deadline.
- ``broker_fault_points``: the fault points inside a broker; ``log_gate`` asks them before appends,
  ``log_events`` traces what else happens to logs.
"""
