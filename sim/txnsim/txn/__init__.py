"""The transaction coordinator's state and decisions, pure. Its shell: ``txnsim.coordinators.txn``.

- ``state``: states, the table, stored and logged values: start reading here.
- ``commands``: commands and answers.
- ``refusals``: refusals that several decisions share.
- ``transitions``: the only place where state changes: begin, apply, withdraw, acknowledge.
- ``machine``: decisions: adding and verifying partitions, timers, queries.
- ``machine_init``: decisions: InitProducerId.
- ``machine_end``: decisions: EndTxn, fences.
- ``markers``: the markers that each broker is owed.
- ``producer_ids``: producer ids in blocks, on the broker and on the controller.
- ``list_filter``: filters of ListTransactions.
- ``log_format``: records of ``__transaction_state``.
- ``log_reader``: from the log to entries.
- ``open_txn_verdict``: what becomes of an open transaction, and the words for it.
- ``past_decision``: what was decided about a transaction that hangs; ``marker_payment``: which
  decisions a partition has had its markers for.
- ``kip_text``, ``two_phase``: what the texts of KIP-890 and KIP-939 ask where Kafka does otherwise.
"""
