"""The only access to time, random numbers, tasks and the network.

- ``environment``: the protocols, and the environment that joins them.
- ``clock``, ``tasks``, ``network``, ``rng``: their implementations on any event loop. ``clock``
  also notices that the whole process stood still. ``network`` has the links between brokers:
  ``peer_call`` is a request, ``_link_cuts`` are links that are cut or slow.
- ``tls``: TLS contexts; ``network`` leads the handshake of a client.
- ``real_world``: the implementations on the system's clocks, sockets and uvloop; ``wall_clock`` for
  programs without a loop.
- ``blocking_world``: connections and time for programs that wait for each answer.
- ``process_pool``: worker processes that end with the process that started them;
  ``process_guard``: foreign programs that do.
- ``virtual``: the implementations on a loop whose clock jumps.
- ``loop_turns``, ``switch_interval``: who goes first on the loop.
- ``trace``: the ordered event trace; ``trace_kinds`` lists what can happen, ``_trace_encodings``
  keeps events as text.
"""
