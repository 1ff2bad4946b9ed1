"""What every node of the cluster has: links to its peers, the present metadata, parked work.

The controller's shell is here too: it is a node like any other.
"""
