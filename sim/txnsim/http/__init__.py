"""The control port: clock, faults, health and metrics of a running cluster over HTTP (extra
``http``).

``app`` answers, ``messages`` are its values, ``openapi`` describes it, ``server`` runs it in the
brokers' event loop.
"""
