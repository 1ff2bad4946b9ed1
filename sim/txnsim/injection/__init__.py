"""Faults made to happen: counts, holds, chance and actions on the cluster.

- ``injector``: the interceptor that counts, holds and decides. ``armed_rule`` is a rule in
  force.

The declarations, and where each applies, are in ``txnsim.faults``.
"""
