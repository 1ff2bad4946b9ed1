"""Log directories in a store: ``s3a://`` and ``gs://`` by ``obstore``, ``hdfs://`` and what else
Hadoop's file system reads by a JVM.

``_native`` and ``_hadoop`` read; ``mirror`` has names, sizes and times on this machine;
``settings`` takes a session's to where tasks run; ``reading`` puts it under ``kafka_log``.
"""
