"""The transaction coordinator of one broker, around the decisions of ``txnsim.txn``.

- ``service``: commands, queries, load and unload.
- ``writer``: begin, append, apply.
- ``marker_sender``: markers on their way, completions.
- ``scans``: timeouts and expiry.
- ``id_source``: blocks of producer ids from the controller.
- ``tracing``: its trace events.
"""
