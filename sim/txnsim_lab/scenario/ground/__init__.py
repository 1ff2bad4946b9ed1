"""Where a story stands: the simulated cluster, real brokers that it starts, or a cluster that is
there already.
"""
