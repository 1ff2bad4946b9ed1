"""What the lab adds to ``txnsim.testing``."""
