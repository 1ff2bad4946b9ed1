"""``txnsim lesson``: ``lesson`` plays a lesson on a story, ``own_cluster`` one on a running
cluster, ``sheet`` prints one, ``submission`` is what learners hand in to their teacher.
"""
