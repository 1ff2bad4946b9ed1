"""Short ways of saying things in a file: ``blocks`` rolls repeated steps out, ``places`` finds the
internal partition of a group or a transactional id.
"""
