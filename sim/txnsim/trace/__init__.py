"""Readers of the event trace: ``story`` tells it in sentences."""
