"""Stories about transactions, as YAML files that people can read and a cluster can act out.

- ``model``, ``steps_model``, ``fields``: what a file may say (pydantic, imported only when one is
  read); ``scenario_reader`` makes one of a file or says what is wrong with it, ``catalog`` where
  files are; ``_notation``: short ways of saying things; ``json_schema`` for editors.
- ``stage``: the target of a run and everybody who acts on it; ``_cluster_options`` says which
  cluster that is. ``on_real``: stories on real brokers, and what keeps them from there.
- ``actors``: who can act; ``players``: client libraries that play applications. ``call_results``:
  what their calls come to; ``recorder`` writes down what they see.
- ``steps`` acts one step out or waits, ``outside_view`` looks at a partition, ``final_observation``
  at everything; ``runner`` runs the whole and has it judged.
- ``hypothesis``: a story as a claim, with the verdict on it.
- ``driven_run``: a run that stops before a step, goes on and goes back; ``driver_commands`` is what
  it is asked, ``repeated_inputs`` does again what somebody did, ``saved_story`` keeps it,
  ``forked_processes`` are what such runs live in.
- ``teaching``: lessons. ``hanging_example``, ``practise_situation``: what hangs on a running
  cluster.
"""
