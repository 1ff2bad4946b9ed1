"""The immutable image of the cluster, and what its records and configs mean. Pure."""
