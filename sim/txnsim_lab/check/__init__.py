"""Judging from outside, by what clients and operators saw and nothing else.

- ``observations``: what clients can see; ``history``: all of it in order, also as JSON lines.
- ``anomaly``: the kinds of errors; ``judge`` asks every checker, each of which is a module.
"""
