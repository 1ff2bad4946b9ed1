"""The transaction coordinator of one broker, around the decisions of ``txnsim.txn``.

- ``service``: commands, queries, load and unload.
- ``_writer``: begin, append, apply.
- ``_marker_sender``: markers on their way, completions.
- ``_scans``: timeouts and expiry.
- ``_id_source``: blocks of producer ids from the controller.
- ``tracing``: its trace events.
"""
