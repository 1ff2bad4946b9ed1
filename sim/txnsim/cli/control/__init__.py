"""Commands that ask the control port of a running simulator: one module per noun.

``port`` finds it and asks it; ``_words`` reads what people write for times and topics.
"""
