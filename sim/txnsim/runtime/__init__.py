"""The one way to time, chance, tasks and the network.

- ``environment``: the protocols, and the environment that joins them.
- ``clock``, ``tasks``, ``network``, ``rng``: the classes over an event loop, any event loop.
  ``clock`` sees, too, that the whole process stood still. ``network`` has the links between
  brokers: ``peer_call`` is a request, ``_link_cuts`` are links that are cut or slow.
- ``tls``: contexts of TLS; the handshake of a client is led by ``network``.
- ``real_world``: put on the system's clocks, sockets and uvloop; ``wall_clock`` for programs
  without a loop.
- ``blocking_world``: connections and time for programs that wait for each answer.
- ``process_pool``: processes that end with the one that needs them.
- ``virtual``: put on a loop whose clock jumps.
- ``loop_turns``, ``switch_interval``: who goes first on the loop.
- ``trace``: the ordered event trace; ``trace_kinds`` lists what can happen, ``_trace_encodings``
  keeps events as text.
"""
