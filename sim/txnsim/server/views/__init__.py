"""What is read off a running cluster: ``metric_values`` are its metrics, ``waiting_transactions``
says what a transaction waits for.
"""
