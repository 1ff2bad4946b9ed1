"""A small asynchronous wire client, against a txnsim cluster or a real Apache Kafka alike.

Tools, scenarios and tests use it. It speaks for itself, through public requests only, and so sees
no more than any client does.

- ``connection``: one connection; requests, correlation ids, negotiated versions, timeouts.
- ``cluster``: bootstrap, metadata, leaders, coordinators, one connection per broker.
- ``producer``: plain, idempotent and transactional; its decisions are pure: ``session`` (identity,
  sequences, which transaction protocol) and ``reactions`` (what an error code means to a producer).
- ``consumer``: assigned partitions; ``isolation`` filters aborted transactions, purely.
- ``admin`` and ``txn_admin``: what Kafka's ``Admin`` offers around transactions; ``hanging``
  decides as Kafka's tool does, ``judgement`` by the whole text of KIP-664, both purely.
- ``survey``, ``repair``, ``stuck``: a whole cluster judged, what hangs ended with a look before and
  after, and why readers stand still.

Kafka's counterpart is the module ``clients``.
"""
