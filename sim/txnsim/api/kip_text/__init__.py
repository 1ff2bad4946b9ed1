"""The letter of KIP-664, KIP-890 and KIP-994 where Apache Kafka ships something else.

Only the listener that ``--kip-text`` opens uses these modules: each module is a
handler of ``txnsim.api`` with the text's behaviour in the place of Kafka's, ``table`` puts them
together, and ``differences`` lists what the texts say against what Kafka ships, with the tests that
hold both.
"""
