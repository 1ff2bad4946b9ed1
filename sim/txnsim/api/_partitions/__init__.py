"""Handlers about topics and partitions: made, grown, described, reassigned, where they lie."""
