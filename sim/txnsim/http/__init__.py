"""The control port: clock, faults, health and metrics of a running cluster over HTTP (extra
``http``).

- ``app`` answers, ``server`` runs it in the brokers' event loop, ``guard`` lets in.
- ``operation`` is one route as a value, ``messages`` what goes over it, ``openapi`` describes them,
  ``replies`` reads and refuses; ``work_thread`` does what would keep the loop busy.
- Nouns: ``overview``, ``faults``, ``_life`` (brokers, leaders, clock), ``topics``,
  ``_transactions``, ``_log_dirs``, ``events``, ``report``, ``_reset``; ``assertions`` and
  ``_repairs`` ask over the wire (``wire_noun``).
- ``_pages``: in a browser.

More nouns join by ``txnsim.extensions``.
"""
