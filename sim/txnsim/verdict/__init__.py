"""The one judge of a cluster: what each face (commands, control port, page, lessons) says of open
transactions. Pure.

- ``facts``: what is known of a cluster at a moment. Brokers in memory, a trace at an event and
  answers over the wire are each turned into the same facts.
- ``contradictions``: where a coordinator's decisions and a partition's markers contradict.
- ``reader_standing``: where read_committed readers of a partition stand, and why not further.
- ``judge``: facts to a ``Verdict``.
- ``words``: every sentence of a verdict.

It refuses to know where facts come from.
"""
