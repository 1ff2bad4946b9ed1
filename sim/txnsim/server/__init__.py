"""What listens: a simulated cluster, put together, and what serves its clients.

The cluster:

- ``cluster``: brokers, links, controller, listeners, clock; ``options`` is what it is started with,
  ``member`` one broker id across its lives.
- ``_first_image``: the metadata it starts with; ``loading``, ``_stored_image``: as its disks have
  been left; ``log_dirs``: its disks as files.
- ``_cluster_control``: what fault rules do to it; ``inputs``: what a user does to it, in the trace.
- ``snapshot``, ``_quiesce``: back to an earlier state, between tests.
- ``views``: what is read off a running cluster; ``_trace_snapshot``: the same, as events.

Its clients:

- ``_listener``, ``_connection``: sockets, and the requests of one, in order; ``_intake`` and
  ``outbox`` are what came and what goes out.
- ``crossings`` leads requests past faults; ``_forwarding`` to the controller.
- ``_channel_builder``: TLS and ``_sasl``; ``_certificates`` and ``security_demo`` are for trying
  out.
- ``_request_log``, ``request_trace``: what is told of requests.
"""
