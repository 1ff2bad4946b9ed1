"""The command line: one module per command, imported only when it is chosen.

- ``main``: the tree of commands.
- ``parsing`` and ``output``: what they share.
- ``serve``, ``scenario``, ``txns``: the commands, each with ``add_arguments(parser)`` and
  ``run(args) -> int``; ``txns_commands`` and ``client_properties`` belong to ``txns``,
  ``scenario_output`` to ``scenario``.
"""
