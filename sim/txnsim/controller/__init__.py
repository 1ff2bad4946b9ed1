"""The decisions of the controller, pure. Its shell is ``txnsim.node.controller_node``."""
