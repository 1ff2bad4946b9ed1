"""Real clients and a raw generator for minutes, while brokers die and clocks jump.

Exactly-once is checked over all of it; memory, tasks and files must stay flat. ``python -m
tests.soak`` runs it, tests/soak/README.md says how to read it.
"""
