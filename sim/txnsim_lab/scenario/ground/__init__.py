"""Where a story stands: the simulated cluster, real brokers that it starts, or a cluster that is
there already.

- ``_base``: the interface of all.
- ``simulated``: every step is possible.
- ``kafka``: a real cluster behind the proxy; ``started`` starts one, by ``apache`` with ``jars``.
- ``_obstacles``, ``_adapting``, ``generation``: what keeps a story from a real cluster, and how it
  is changed for one; ``_log_care``, ``cleaning``: care of its logs, and what is left behind.
- ``comparison``: stories played on both.
"""
