"""The transaction coordinator's state and decisions, pure. Its shell: ``txnsim.coordinators.txn``.

state.py          states, the table, what is kept and logged: start reading here
commands.py       what it can be asked, what it answers
refusals.py       refusals that several decisions share
transitions.py    the only place where state changes: begin, apply, withdraw, acknowledge
machine.py        decisions: adding and verifying partitions, timers, queries
machine_init.py   decisions: InitProducerId
machine_end.py    decisions: EndTxn, fences
markers.py        which markers are owed to whom
producer_ids.py   producer ids in blocks, on the broker and on the controller
list_filter.py    filters of ListTransactions
log_format.py     records of ``__transaction_state``
log_reader.py     from the log to entries
ownership.py      which partitions a broker coordinates, under which epoch
"""
