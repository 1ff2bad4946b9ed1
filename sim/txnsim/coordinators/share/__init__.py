"""The share coordinator of one broker, around the decisions of ``txnsim.share_state``.

Kafka's counterpart: ShareCoordinatorService.
"""
