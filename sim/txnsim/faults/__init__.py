"""Faults on demand: where they can strike, what is declared, and who makes it happen.

- ``points``: every place, by name. ``actions`` and ``cluster_actions``: everything that can be done
  to a crossing, and to the cluster. ``meanings``: which of them means something where.
- ``plan``: rules as values; does a rule concern a crossing, does it strike it? ``refusals``: rules
  that could never strike.
- ``injector``: the interceptor that counts, holds and decides. Its parts: ``armed``, a rule in
  force; ``stalls``, lines that stand still; ``cluster_acts``, actions on the cluster under way.
- ``hands``: who carries those out, as a protocol. ``damage``: damaged bytes.

The code that is struck knows nothing of this package; it is handed an ``env.Interceptor``.
"""
