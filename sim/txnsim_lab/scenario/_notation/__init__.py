"""Short ways of saying things in a file: ``blocks`` rolls repeated steps out,
``internal_partitions`` finds the internal partition of a group or a transactional id.
"""
