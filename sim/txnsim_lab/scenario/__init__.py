"""Scenarios: stories about transactions, written in YAML files, which a cluster plays.

- ``model``, ``steps_model``, ``fields``: what a file may say (pydantic, imported only when one is
  read); ``scenario_reader`` reads a file or says what is wrong with it; ``catalog`` finds files;
  ``_notation`` expands abbreviations; ``json_schema`` is for editors.
- ``stage``: the running story, which is the target of a run and the actors on it;
  ``_cluster_options`` configures the cluster.
  ``on_real`` plays stories on real brokers, or says why it can't.
- ``actors``: who can act; ``players``: client libraries that play applications. ``call_results``:
  the results of their calls; ``recorder`` writes down what they see.
- ``steps`` plays one step or waits, ``outside_view`` looks at a partition, ``final_observation``
  at everything; ``runner`` plays the whole story and has it judged.
- ``hypothesis``: a story as a claim, with the verdict on it.
- ``driven_run``: a run that stops before a step, goes on and goes back; ``driver_commands``: the
  commands to it; ``repeated_inputs`` repeats a user's inputs, ``saved_story`` saves them,
  ``forked_processes`` has the processes of these runs.
- ``teaching``: lessons. ``hanging_example``, ``practise_situation``: transactions that hang, made
  on a running cluster. ``incidents``: what disks look like after an incident; ``_incident_disks``
  writes them record by record. ``finding_story`` writes the story of what ``txnsim logs
  decisions`` finds on disks; ``story_disks`` plays a story and writes its disks.
"""
