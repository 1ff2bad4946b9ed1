"""Faults as values: where they can strike, what can be declared, what that means. Pure.

- ``interception``: what passes a fault point, and how it may go on. ``subjects``: whom a request is
  about.
- ``points``: every place, by name. ``actions`` and ``cluster_actions``: everything that can be done
  to a crossing, and to the cluster. ``meanings``: which of them means something where.
- ``rule``: what can be declared, and rules that could never strike. ``absent_targets``: rules that
  can't strike in this cluster as it is. ``plan``: does a rule concern a crossing, does it strike
  it?
- ``damage``: damaged bytes.

``txnsim.injection`` makes them happen. The code that is struck knows neither; it is handed a
``interception.Interceptor``.
"""
