"""Faults made to happen: counts, holds, chance and actions on the cluster.

- ``injector``: the interceptor that counts, holds and decides. Its parts: ``armed``, a rule in
  force; ``_running_actions``, actions on the cluster under way, and the protocol by which they are
  carried out.

The declarations, and where each applies, are in ``txnsim.faults``.
"""
