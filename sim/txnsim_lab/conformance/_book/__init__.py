"""The casebook: read, played and compared.

- ``model``: what its files may say; ``reading`` reads rules and cases, ``answers`` answers.
- ``words``: short words for requests: ``verbs``, ``log_verbs``, ``group_verbs``,
  ``member_verbs``, ``share_verbs``; ``values`` and ``batches`` are in them.
- ``playing``: plays cases to a broker at any address; ``player`` asks, ``targets`` are clusters.
- ``transcript``: answers as plain values that two brokers can be compared by; ``recordings`` are
  these in files.
"""
