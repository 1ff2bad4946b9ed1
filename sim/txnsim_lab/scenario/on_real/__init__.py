"""Stories on real brokers.

- ``_obstacles``: what keeps a story from there; ``_adapting``: how it is changed for them.
- ``comparison``: stories played on both.
"""
