"""Transactions seen as an operator sees them: what hangs, why readers wait, what repairs it.

- ``hanging`` decides as Kafka's tool does, ``judgement`` by the whole text of KIP-664, both purely;
  ``survey`` judges a whole cluster and finds what was decided, ``_partition_markers`` fetches which
  of it was carried out, ``coordinators_asked`` says whether enough of them answered.
- ``repair`` ends what hangs with a look before and after.
- ``waiting_readers`` explains why readers wait.
- ``exactly_once``: was each input worked on exactly once? ``topic_reading`` is a topic as readers
  of both isolation levels have it, ``complaints`` has the words for both.
- ``txn_views``: transactions as brokers describe them; ``txn_wording``: refusals in the words of
  Kafka's ``Admin``.
- ``groups``: groups of all types, their members and positions, and what is done to share groups.
"""
