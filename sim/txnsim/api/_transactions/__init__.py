"""Handlers about transactions, for producers and for operators."""
