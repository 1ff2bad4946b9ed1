"""Searches every order in which the messages of a small cluster can arrive (``txnsim explore``).

What is searched is the simulator itself, cores and shells, in virtual time.

- ``model``: what is explored and within which bounds; ``catalog`` finds and reads it; ``_mistakes``
  tells what is wrong in a file.
- ``_conductor`` leads a run from one choice to the next; ``way`` is what was chosen.
- ``_node_states`` and ``_contents`` tell whether two runs are in one state.
- ``search`` forks at each choice, and ``_shared`` is what its processes have together.
- ``deepening`` searches with more and more deviations from a quiet network.

Comparable: TLC, Stateright, and what CCF reports of smart casual verification (arXiv 2406.17455),
which search or replay a model; here the code is its own model.
"""
