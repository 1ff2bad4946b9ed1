"""Parts of every node of the cluster. The controller is a node like any other.

- ``peers``: requests between brokers, typed.
- ``controller_node``: the shell of the controller's decisions; ``metadata_publisher`` has its log,
  ``image_intake`` takes up its news, ``broker_lifecycle`` is a broker towards it.
- ``coordinator_loading``: the time between leading a partition and answering for it.
- ``purgatory``: parked work, by key and deadline.
- ``broker_fault_points``: the fault points inside of a broker; ``log_gate`` stands before its logs,
  ``log_events`` tells what happens to them.
"""
