"""One module per table of ``kafka_log``: what a unit of work has to say, as columns.

``rows`` is what they have in common; ``txnsim.pipeline.source`` calls them.
"""
