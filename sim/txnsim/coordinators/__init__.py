"""The shells of the coordinators: they append, apply, release replies, arm timers.

- ``txn``: around the pure rules of ``txnsim.txn``.
- ``group``: around those of ``txnsim.group``.
- ``share``: around those of ``txnsim.share_state``.
- ``_ownership``: which partitions of its log a coordinator's broker leads, under which epoch.
- ``_coordinator_log``: the interface of a coordinator's log, and its errors.

Kafka's counterpart: CoordinatorRuntime.
"""
