"""Log directories in an object store: ``s3a://`` and ``gs://``, by ``obstore``.

``_native`` reads from the store; ``mirror`` keeps names, sizes and times on this machine;
``settings`` passes a session's settings to tasks; ``reading`` connects both with ``kafka_log``.
"""
