"""What is read off a running cluster: ``readings`` are its metrics, ``waiting`` says what a
transaction waits for.
"""
