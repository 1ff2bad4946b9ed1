"""Which rights each API asks for, and what somebody without them is answered.

Handlers answer as if everybody might do everything; what stands in front of them is here, and only
where a cluster has an authorizer (``gate.guarded``). Three shapes cover nearly all: the whole
request is refused (``whole``), the resources that are forbidden are taken out of the request and
their errors put into the answer (``parts``), or what may not be seen is taken out of the answer
(``topics``, ``groups``, ``transactions``). A forbidden topic is never looked up: its answer is the
same whether it exists or not. Kafka's counterparts: KafkaApis, ControllerApis, AclApis.
"""
