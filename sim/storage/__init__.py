"""Kafka's files on disk, as bytes: read and written, without a policy of what to keep.

- ``producer_snapshot``: producer state of a partition at one offset (``*.snapshot``).
"""
