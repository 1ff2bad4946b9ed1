"""A simulated cluster as a whole, and the server side of its clients' connections.

The cluster:

- ``cluster``: brokers, links, controller, listeners, clock; ``options`` is what it is started with,
  ``disk_loading`` loads the disks of a former cluster, ``member`` is one broker id across its
  lives.
- ``log_dirs``: its disks as files.
- ``_cluster_control``: what fault rules do to it; ``user_inputs``: what a user does to it, in the
  trace.
- ``snapshot``: back to an earlier state, between tests.
- ``views``: metrics and states of a running cluster; ``_trace_snapshot``: its state as events.

Its clients:

- ``_listener``, ``_connection``: sockets, and the requests of one, in order; ``_outbox`` has the
  answers that are not sent yet.
- ``client_fault_points`` leads requests past faults, ``relayed_request`` those that go on to a
  broker elsewhere.
- ``_channel_builder``: TLS and ``_sasl``; ``security_demo`` is for trying out.
- ``_request_log``, ``request_trace``: requests in the log and in the trace.
"""
