"""The metrics: one table of names, units and meanings (``table``), and its exposition for
Prometheus (``exposition``).
"""
