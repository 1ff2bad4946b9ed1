"""The group coordinator of one broker, around the decisions of ``txnsim.group``."""
