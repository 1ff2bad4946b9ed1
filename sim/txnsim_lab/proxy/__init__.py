"""A fault proxy in front of any Kafka cluster: the fault engine of the simulator, put between
clients and brokers that somebody else has started, and between these brokers.

- ``fault_proxy``: the proxy as a whole; what ``txnsim proxy`` starts, by its ``options``.
- ``_listeners``: a listening socket per node; addresses of nodes, here and upstream.
- ``_relay``: one client's connection and its connection upstream, and what is read without
  decoding.
- ``_connection_ends``: its two sides, as transports see them.
- ``_frame_stream``: cuts a direction of it into frames, and lets pass what no rule asks for.
- ``_proxied_request``: a frame as a crossing of a fault point, and answers that are made here.
- ``addresses``: which answers carry addresses of brokers, and how they are rewritten.
- ``_topic_names``: names of topics that requests tell by id.
- ``meanings``: which rules a proxy can't obey, and why.
"""
