"""Handlers about the cluster: versions, nodes, coordinators, features, client metrics."""
