"""The tables of ``kafka_log``: how a unit of work becomes columns.

``rows`` is what they have in common; ``txnsim_spark.source`` calls them.
"""
