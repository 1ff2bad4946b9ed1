"""Finds the consumer groups that wait for an open transaction."""
