"""The control port: clock, faults, health and metrics of a running cluster over HTTP (extra
``http``).

- ``_app`` is the application, ``server`` runs it in the brokers' event loop, ``_guard`` checks
  callers, ``_port_log`` tells trouble of connections; ``partial_port`` serves targets other than a
  simulated cluster, ``direct_port`` works without a server.
- ``operation`` is a route as a value, ``messages`` has the JSON objects, ``_openapi`` describes
  them, ``replies`` reads requests and refuses them; ``work_thread`` runs work that would block the
  loop.
- Nouns: ``_overview``, ``_faults``, ``_brokers_and_clock`` (brokers, leaders, clock), ``_topics``,
  ``_transactions``, ``_log_dirs``, ``_events``, ``report``, ``_reset``; ``_assertions`` and
  ``_repairs`` use a client over the wire (``wire_noun``).
- ``_pages``: the login of a browser.

Extensions add nouns by ``txnsim.on_demand_imports``.
"""
