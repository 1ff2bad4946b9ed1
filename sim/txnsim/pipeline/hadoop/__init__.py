"""Log directories in a store that Hadoop's file system reads: ``s3a://``, ``hdfs://``, others."""
