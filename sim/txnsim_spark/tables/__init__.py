"""The tables of ``kafka_log``: turn the files of a task into columns. ``rows`` is what they have in
common; ``txnsim_spark.source`` calls them.
"""
