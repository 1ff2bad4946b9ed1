"""Who can play the producer of a story: our client, ``_kafka_python``, or any other client, as
a process; ``casting`` chooses.
"""
