"""Reads, plays and compares the casebook.

- ``model``: the content of its files; ``casebook_reader`` reads rules and cases, ``answers`` the
  recorded answers.
- ``vocabulary``: the short words (verbs) for requests: ``verbs``, ``log_verbs``, ``group_verbs``,
  ``member_verbs``, ``share_verbs``, ``streams_verbs``; ``values`` and ``batches`` parse their
  arguments.
- ``case_player``: plays cases to a broker at any address; ``frame_player`` sends the requests,
  ``targets`` are the clusters.
- ``transcript``: answers as plain values, so that those of two brokers can be compared;
  ``recordings`` reads and writes them in files.
"""
