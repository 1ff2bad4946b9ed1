"""Requests to one broker, frame by frame, for what compares brokers: ``connection``."""
