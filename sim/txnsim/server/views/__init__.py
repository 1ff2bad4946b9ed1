"""Views of a running cluster: ``metric_values`` has its metrics, ``waiting_transactions`` tells
what a transaction waits for.
"""
