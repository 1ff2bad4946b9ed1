"""``txnsim lesson``: ``lesson`` plays one on a story, ``own_cluster`` one on a running cluster,
``sheet`` prints one, ``submission`` is what learners give their teacher.
"""
