"""Players of an application: our client, ``_kafka_python``, or any other client, as a process;
``casting`` chooses one.
"""
