"""``txnsim scenario``: its commands, their output, the matrix."""
