"""The command line: one module per command, imported only when it is chosen.

- ``main``: the tree of commands; ``commands`` lists them, with those that extensions add.
- ``parsing`` and ``output``: what all of them share; ``progress``: the count of long ones.
  ``garbage_collection`` is for those that
  keep much.
- ``serve``, with ``_serve_load``: a cluster. ``_ready_file`` and
  ``_security_settings`` are what it writes, ``serving`` what it shares with the proxy.
- ``_txns``: transactions of any cluster; ``client_properties`` reads ``--command-config``.
- ``control``: commands that ask the control port of a running simulator; ``_control_token`` is what
  lets them in.
- ``decision_output``: what ``logs decisions`` and ``txns decisions`` print.
- ``event_log``: how logs look, and how they stay readable.
- ``_completion``: a script for shells.

Each command has ``add_arguments(parser)`` and ``run(args) -> int``.
"""
