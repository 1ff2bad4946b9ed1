"""Who can play the producer of a story: ``_own`` (our client), ``_kafka_python``, ``_program`` (any
other client, as a process); ``casting`` chooses.
"""
