"""The one door to time, chance, tasks and the network.

- ``env``: the protocols, and the environment that joins them.
- ``clock``, ``tasks``, ``network``, ``rng``: the classes over an event loop, any event loop;
  ``peer_links`` carries requests between brokers (``peer_call`` is one).
- ``tls``: contexts of TLS; the handshake of a client is led by ``network``.
- ``real``: put on the system's clocks, sockets and uvloop.
- ``virtual``: put on a loop whose clock jumps (``virtual_loop``) with
  connections in memory (``virtual_net``, ``virtual_connection``), while ``ambient`` makes
  unmodified client libraries follow: by ``doors`` in front of the process's functions,
  and what it knows of single libraries.
- ``process``: what of a process keeps a run from repeating in another one, and how to remove it.
- ``trace``: the ordered event trace; ``trace_kinds`` lists what can happen.
"""
