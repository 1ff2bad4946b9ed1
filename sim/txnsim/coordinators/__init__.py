"""The shells of the coordinators: append, apply, release the reply, arm timers.

- ``txn``: around the pure rules of ``txnsim.txn``.
- ``group``: around those of ``txnsim.group``.
- ``share``: around those of ``txnsim.share_state``.
- ``_ownership``: which partitions of its log are led, under which epoch.
- ``_coordinator_log``: appends to a log of any, and the errors of it.

Kafka's counterpart: CoordinatorRuntime.
"""
