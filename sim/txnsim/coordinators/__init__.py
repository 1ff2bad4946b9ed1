"""The shells of both coordinators: append, apply, release the reply, arm timers.

What they decide with stands in ``txn`` and ``group``, purely.
Kafka's counterpart: CoordinatorRuntime.
"""
