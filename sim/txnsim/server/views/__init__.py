"""What is read off a running cluster: ``readings`` are its metrics, ``waiting_transactions`` says
what a transaction waits for.
"""
