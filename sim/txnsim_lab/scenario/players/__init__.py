"""Who can play the producer of a story: ``own`` (our client), ``kafka_python``, ``program`` (any
other client, as a process); ``casting`` chooses.
"""
