"""Handlers that append, read and delete records, and answer questions about offsets."""
