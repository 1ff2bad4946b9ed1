"""Transactions as an operator sees them: which hang, why readers wait, how to repair it.

- ``hanging`` decides as Kafka's tool does, ``judgement`` by the whole text of KIP-664, both purely;
  ``survey`` judges a whole cluster and finds past decisions, ``_partition_markers`` fetches the
  markers that were written, ``coordinators_asked`` checks whether enough coordinators answered.
- ``repair`` ends hanging transactions, with checks before and after; ``ending`` ends an open one of
  a given identity.
- ``decisions`` compares all past decisions with the markers; ``_decision_reading`` reads both side
  by side, from what ``_batch_headers`` fetches.
- ``waiting_readers`` explains why readers wait.
- ``exactly_once``: was each input processed exactly once? ``topic_reading`` reads a topic as
  readers of both isolation levels see it, ``complaints`` puts differences into words.
- ``txn_views``: transactions as brokers describe them; ``txn_wording``: refusals in the words of
  Kafka's ``Admin``.
- ``groups``: groups of all types, their members and positions, and changes of share groups.
"""
