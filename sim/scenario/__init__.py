"""Stories about transactions, as YAML files that people can read and a cluster can act out.

- ``model``: what a file may say (pydantic, imported only when one is read); ``reading`` makes one
  of a file or says what is wrong with it, ``suggestions`` how names are spelled, ``catalog`` where
  files are.
- ``stage``: a cluster and everybody who acts on it; ``players`` play the producer.
- ``steps`` acts one step out, ``observations`` looks from outside, ``runner`` runs the whole.
"""
