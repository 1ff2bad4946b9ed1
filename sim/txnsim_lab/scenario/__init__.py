"""Stories about transactions, as YAML files that people can read and a cluster can act out.

- ``model``, ``steps_model``, ``fields``: what a file may say (pydantic, imported only when one is
  read); ``reading`` makes one of a file or says what is wrong with it, ``consistency`` what does
  not fit together, ``suggestions`` how names are spelled, ``catalog`` where files are;
  ``notation``: short ways of saying things.
- ``worlds``: the cluster of a run; ``stage``: it, and everybody who acts on it.
- ``actors``: who can act; ``players``: client libraries that play applications. ``answers``: what
  their calls come to; ``recorder`` writes down what they see.
- ``steps`` acts one step out, ``cluster_steps`` those on the cluster, ``conditions`` waits,
  ``looks`` looks at everything, ``runner`` runs the whole and has it judged.
"""
