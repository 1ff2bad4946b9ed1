"""The control port: clock, faults, health and metrics of a running cluster over HTTP (extra
``http``).

- ``_app`` answers, ``server`` runs it in the brokers' event loop, ``_guard`` lets in;
  ``partial_port`` answers for what is no simulated cluster, ``direct_port`` without a server.
- ``operation`` is one route as a value, ``messages`` what goes over it, ``_openapi`` describes
  them, ``replies`` reads and refuses; ``work_thread`` does what would keep the loop busy.
- Nouns: ``_overview``, ``_faults``, ``_brokers_and_clock`` (brokers, leaders, clock), ``_topics``,
  ``_transactions``, ``_log_dirs``, ``_events``, ``report``, ``_reset``; ``_assertions`` and
  ``_repairs`` ask over the wire (``wire_noun``).
- ``_pages``: in a browser.

More nouns join by ``txnsim.on_demand_imports``.
"""
