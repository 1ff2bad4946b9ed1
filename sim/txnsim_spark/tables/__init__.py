"""The tables of ``kafka_log``: what a unit of work has to say, as columns. One module per
table, and ``_small_files`` for those that read no segment.

``rows`` is what they have in common; ``txnsim_spark.source`` calls them.
"""
