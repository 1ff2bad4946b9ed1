"""Judging from outside, by what clients and operators saw and nothing else.

- ``observations``: what can be seen; ``history``: all of it in order, in memory and as JSON lines.
- ``anomaly``: what can be wrong, by name; ``judge`` asks every checker, each of which is a module.
"""
