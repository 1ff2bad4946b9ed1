"""What listens: a simulated cluster, put together, and what serves its clients.

The cluster:

- ``cluster``: brokers, links, controller, listeners, clock; ``options`` is what it is started with,
  ``disk_loading`` what its disks were left with, ``member`` one broker id across its lives.
- ``log_dirs``: its disks as files.
- ``_cluster_control``: what fault rules do to it; ``user_inputs``: what a user does to it, in the
  trace.
- ``snapshot``: back to an earlier state, between tests.
- ``views``: what is read off a running cluster; ``_trace_snapshot``: the same, as events.

Its clients:

- ``_listener``, ``_connection``: sockets, and the requests of one, in order; ``_outbox`` is
  what goes out.
- ``client_fault_points`` leads requests past faults, ``relayed_request`` those that go on to a
  broker elsewhere.
- ``_channel_builder``: TLS and ``_sasl``; ``security_demo`` is for trying out.
- ``_request_log``, ``request_trace``: what is told of requests.
"""
