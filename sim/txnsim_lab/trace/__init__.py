"""What is made of a recorded trace: explanations, differences, other formats.

- ``state``: of the cluster after any event.
- ``explain``: why a last stable offset stands where it stands; ``faults_and_decisions`` is what it
  needs besides, ``explained_moments`` has it for every moment.
- ``cause_chains``: from an event to its causes. ``diff``: where two runs part.
- ``brief``: an event as a line; ``convert``: formats of other tools; ``redaction``: without values.
"""
