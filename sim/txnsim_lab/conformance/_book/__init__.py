"""The casebook: read, played and compared.

- ``model``: what its files may say; ``casebook_reader`` reads rules and cases, ``answers`` answers.
- ``vocabulary``: short words for requests: ``verbs``, ``log_verbs``, ``group_verbs``,
  ``member_verbs``, ``share_verbs``; ``values`` and ``batches`` are in them.
- ``case_player``: plays cases to a broker at any address; ``frame_player`` asks, ``targets`` are
  clusters.
- ``transcript``: answers as plain values that two brokers can be compared by; ``recordings`` are
  these in files.
"""
