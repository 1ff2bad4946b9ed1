"""Stories on real brokers: ``comparison`` says what keeps a story from there, how it is changed for
them, and plays it on both.
"""
