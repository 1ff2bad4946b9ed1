"""The transaction coordinator's state and decisions, pure. Its shell: ``txnsim.coordinators.txn``.

state.py          states, the table, stored and logged values: start reading here
commands.py       commands and answers
refusals.py       refusals that several decisions share
transitions.py    the only place where state changes: begin, apply, withdraw, acknowledge
machine.py        decisions: adding and verifying partitions, timers, queries
machine_init.py   decisions: InitProducerId
machine_end.py    decisions: EndTxn, fences
markers.py        the markers that each broker is owed
producer_ids.py   producer ids in blocks, on the broker and on the controller
list_filter.py    filters of ListTransactions
log_format.py     records of ``__transaction_state``
log_reader.py     from the log to entries
decided.py        what was decided about a transaction that hangs
"""
