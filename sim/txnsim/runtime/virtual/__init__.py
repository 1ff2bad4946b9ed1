"""Virtual time: a loop whose clock jumps, links in memory, and client libraries that use both.

- ``run``: ``run_virtual(main, seed=7)``. Its loop's clock jumps to the next deadline; with nothing
  to wait for it raises.
- ``net``, ``_connection``: addresses and connections in memory.
- ``_process_clocks``: makes unmodified client libraries follow, by patches of the process's
  functions.
- ``reproducible_process``: what prevents a run from repeating in another process, and how to remove
  it.
"""
