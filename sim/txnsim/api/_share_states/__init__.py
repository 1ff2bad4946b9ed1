"""Handlers of the share coordinator: the state of share partitions. Only brokers send these
requests.
"""
