"""Faults made to happen: counts, holds, chance and actions on the cluster.

- ``injector``: the interceptor that counts, holds and decides. Its parts: ``armed``, a rule in
  force; ``stalls``, lines that stand still; ``running_actions``, actions on the cluster under way.
- ``cluster_control``: the protocol by which those are carried out.

What is declared, and what means something where, stands in ``txnsim.faults``.
"""
