"""The shells of both coordinators: append, apply, release the reply, arm timers.

The pure rules that they decide by are in ``txn`` and ``group``.
Kafka's counterpart: CoordinatorRuntime.
"""
