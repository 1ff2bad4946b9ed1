"""A target is the cluster that a story or the exam is played on: the simulated one, brokers of
Apache Kafka that are started for it, or a cluster that runs already.

It knows neither stories nor the exam, only what is done to a cluster.

- ``cluster``: the interface of all, and the abilities by which they differ.
- ``simulated``: every ability.
- ``real``: a real cluster behind the fault proxy; ``real_clusters`` starts one, by ``apache`` with
  ``jars``. ``log_care`` cares for its logs, ``cleaning`` takes away what was made on it.
- ``generation``: which protocol a real cluster speaks.
"""
