"""Commands that use the control port of a running simulator: one module per noun.

``port`` finds the port and sends requests, ``_answers`` is what answers must have, ``_words``
parses times and topics.
"""
