"""Requests to one broker, frame by frame, for comparisons of brokers: ``connection``."""
