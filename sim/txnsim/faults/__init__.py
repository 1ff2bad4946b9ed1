"""Faults as values: where they can strike, what can be declared, and what it means. Pure.

- ``interception``: what crosses a fault point, and how it may continue. ``subjects``: the
  transactions and partitions that a request is about.
- ``points``: every fault point by name. ``actions`` and ``cluster_actions``: all actions on a
  crossing, and on the cluster. ``meanings``: which action is valid at which point.
- ``rule``: a declared rule, and the refusal of rules that could never strike. ``absent_targets``:
  rules that can't strike in the current cluster. ``plan``: whether a rule matches and strikes a
  crossing.
- ``damage``: damages bytes.

``txnsim.injection`` makes them happen. The code that faults strike knows neither; it gets an
``interception.Interceptor``.
"""
