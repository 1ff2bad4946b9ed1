"""Handlers about topics and partitions: create, delete, describe, grow, reassign, locate."""
