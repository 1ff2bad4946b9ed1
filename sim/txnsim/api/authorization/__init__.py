"""Which rights each API requires, and the answer to a client that lacks them.

Handlers know nothing of rights. This package runs in front of them, and only where a cluster has an
authorizer (``gate.guard_apis``). Three shapes cover nearly all. ``_whole_requests`` refuses the
whole request. ``_named_resources`` takes the forbidden resources out of the request and puts their
errors into the answer. ``_topics``, ``_groups`` and ``_transactions`` take hidden resources out of
the answer. A forbidden topic is never looked up: its answer is the same whether it exists or not.
Kafka's counterparts: KafkaApis, ControllerApis, AclApis.
"""
