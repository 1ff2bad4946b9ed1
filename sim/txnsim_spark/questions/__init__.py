"""What operators ask of log directories: who waits, which application it was, what was lost, why
``__transaction_state`` grows.
"""
