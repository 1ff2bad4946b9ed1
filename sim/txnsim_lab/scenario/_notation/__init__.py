"""Short ways of saying things in a file: ``blocks`` rolls repeated steps out, ``drawn_order`` puts
steps in an order by seed, ``places`` finds the internal partition of a group or a transactional id.
"""
