"""Handlers of the share coordinator, for the state of share partitions. Only brokers send these
requests.
"""
