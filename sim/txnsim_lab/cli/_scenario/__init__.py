"""``txnsim scenario``: its commands, what they print, the matrix."""
