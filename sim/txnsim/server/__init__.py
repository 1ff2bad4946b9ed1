"""What listens: a simulated cluster, put together, and what serves its clients.

The cluster:

- ``cluster``: brokers, links, controller, listeners, clock; ``options`` is what it is started with,
  ``member`` one broker id across its lives.
- ``first_image``: the metadata it starts with; ``loading``, ``stored_image``: as its disks have
  been left; ``log_dirs``: its disks as files.
- ``cluster_control``: what fault rules do to it; ``inputs``: what a user does to it, in the trace.
- ``snapshot``, ``quiesce``: back to an earlier state, between tests.
- ``views``: what is read off a running cluster; ``trace_snapshot``: the same, as events.

Its clients:

- ``listener``, ``connection``: sockets, and the requests of one, in order; ``intake`` and
  ``outbox`` are what came and what goes out.
- ``crossings`` leads requests past faults; ``forwarding`` to the controller.
- ``channel_builder``: TLS and ``sasl``; ``certificates`` and ``security_demo`` are for trying out.
- ``request_log``, ``request_trace``: what is told of requests.
"""
