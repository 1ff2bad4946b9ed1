"""Parts of every node of the cluster: links to its peers, present metadata, parked work.

The controller's shell is here too: it is a node like any other.
"""
