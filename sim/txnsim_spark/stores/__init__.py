"""Log directories in an object store: ``s3a://`` and ``gs://``, by ``obstore``.

``_native`` reads; ``mirror`` has names, sizes and times on this machine;
``settings`` takes a session's to where tasks run; ``reading`` puts it under ``kafka_log``.
"""
