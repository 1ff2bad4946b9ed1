"""The lab's part of ``txnsim.testing``."""
