"""The transaction coordinator of one broker, around the decisions of ``txnsim.txn``.

writer.py         begin, append, apply
marker_sender.py  markers on their way, completions
scans.py          timeouts and expiry
id_source.py      blocks of producer ids from the controller
tracing.py        its trace events
service.py        commands, queries, load and unload
"""
