"""A target is the cluster that a story or the exam is played on: the simulated one, brokers of
Apache Kafka that are started for it, or a cluster that runs already.

This package knows neither stories nor the exam, only operations on a cluster.

- ``cluster``: the interface of all targets, and the abilities by which they differ.
- ``simulated``: the simulated cluster, which has every ability.
- ``real``: a real cluster behind the fault proxy; ``real_clusters`` starts one, by ``apache`` with
  ``jars``. ``log_care`` maintains its logs, ``cleaning`` removes what was created on it.
- ``generation``: the transaction protocol of a real cluster.
"""
