"""Behaviour by the text of KIP-664, KIP-890 and KIP-994 where Apache Kafka ships something else.

Only the listener that ``--kip-text`` opens uses these modules: each module is a handler of
``txnsim.api`` that behaves as the text says, ``table`` lists them, and ``differences`` compares the
texts with what Kafka ships and names the tests of both.
"""
