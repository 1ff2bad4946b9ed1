"""A fault proxy in front of any Kafka cluster: the fault engine of the simulator, placed between
clients and running brokers, and between these brokers.

- ``fault_proxy``: the proxy as a whole; what ``txnsim proxy`` starts, by its ``options``.
- ``_listeners``: a listening socket per node; addresses of nodes, here and upstream.
- ``_relay``: one client's connection and its connection upstream, and the fields that are read
  without decoding.
- ``_connection_ends``: the two sides of a connection, as asyncio protocols.
- ``_frame_stream``: cuts one direction of a connection into frames, and forwards those that no rule
  matches.
- ``_proxied_request``: a request at a fault point, and answers that the proxy makes.
- ``addresses``: rewrites addresses of brokers in answers.
- ``_topic_names``: names of topics that requests identify by id.
- ``meanings``: fault rules that a proxy can't apply, and why.
"""
