"""Reads a recorded trace: explanations, differences, other formats.

- ``state``: the state of the cluster after any event.
- ``explain``: why a last stable offset does not advance; ``faults_and_decisions`` has the held
  messages and decisions for it, ``explained_moments`` explains every moment.
- ``cause_chains``: the causes of an event. ``diff``: the first difference of two runs.
- ``brief``: an event as a line; ``convert``: formats of other tools; ``redaction`` removes the
  contents of records.
"""
