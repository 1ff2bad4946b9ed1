"""The shells of both coordinators: append, apply, release the reply, arm timers.

The pure rules that they decide by are in ``txn`` and ``group``. ``ownership`` knows what is led.
Kafka's counterpart: CoordinatorRuntime.
"""
