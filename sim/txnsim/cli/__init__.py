"""The command line: one module per command, imported only when it is chosen.

- ``main``: the tree of commands.
- ``parsing`` and ``output``: what they share.
- ``serve``, ``scenario``, ``txns``, ``logs`` …: the commands, each with ``add_arguments(parser)``
  and ``run(args) -> int``; a folder where one has several parts.
- ``control``: commands that ask the control port of a running simulator.
- ``practise``: ``serve`` with a situation to repair, made by ``practise_situation``.
"""
