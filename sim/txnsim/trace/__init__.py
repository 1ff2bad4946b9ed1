"""Readers of the event trace: ``trace_file`` reads a recording, ``story`` tells it in sentences."""
