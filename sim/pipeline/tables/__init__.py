"""One module per table of ``kafka_log``: what a unit of work has to say, as columns.

``rows`` is what they have in common; ``sim.pipeline.source`` calls them.
"""
