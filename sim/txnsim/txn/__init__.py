"""The transaction coordinator's state and decisions, pure. Its shell: ``txnsim.coordinators.txn``.

- ``state``: states, the table of allowed changes, stored and logged values: start reading here.
- ``commands``: commands and replies.
- ``refusals``: errors that several decisions share.
- ``transitions``: the only place where state changes: begin, apply, withdraw, acknowledge.
- ``machine``: decisions: adding and verifying partitions, timers, queries.
- ``machine_init``: decisions: InitProducerId.
- ``machine_end``: decisions: EndTxn, fences.
- ``markers``: the markers that each broker is owed.
- ``producer_ids``: producer ids in blocks, on the broker and on the controller.
- ``list_filter``: filters of ListTransactions.
- ``log_format``: records of ``__transaction_state``.
- ``log_reader``: reads the log into entries.
- ``open_txn_verdict``: whether an open transaction will end, and the sentences that explain it.
- ``past_decision``: the decision about a hanging transaction; ``marker_payment``: the decisions
  whose markers a partition has.
- ``decision_audit``: whether partitions have the markers of all past decisions;
  ``decision_ledger`` judges while they are read; ``decision_records``: the records that are
  concerned; ``decision_report`` says it in words; ``finding_facts``: what lies around a finding,
  for a story of it.
- ``kip_text``, ``two_phase``: what the texts of KIP-890 and KIP-939 ask for where Kafka behaves
  differently.
"""
