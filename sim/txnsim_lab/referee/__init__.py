"""Plays two designs of a change to Kafka's transactions against each other (``txnsim referee``).

- ``_decisions``: the decisions of the cores that a plug-in may replace, by name.
- ``plugin``: reads a plug-in, a Python file, and puts its functions in the place of decisions.
- ``design``: what is refereed: a release with switches, settings and plug-ins.
- ``pairs`` plays the same exploration, story or seed on both; ``matches`` plays all of them.
- ``_costs`` counts what a transaction takes.
- ``verdict``: what a design cures, leaves and brings; ``writing`` puts it into words.
- ``real_releases`` asks real brokers for the anomalies of a verdict.
"""
