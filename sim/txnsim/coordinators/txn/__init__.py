"""The transaction coordinator of one broker, around the decisions of ``txnsim.txn``.

- ``service``: commands, queries, load and unload, timeouts and expiry, blocks of producer ids.
- ``_transition_effects``: prepare, append and apply transitions; then markers and completions.
- ``tracing``: its trace events.
"""
