"""Kafka's log directories, traces and live streams as tables of Apache Spark.

It needs the extra ``spark`` and Java 17; other programs import none of it. It knows the files, the
wire protocol and the client of ``txnsim``, but neither the broker nor the lab; its commands are
registered through ``txnsim.on_demand_imports``.

- ``session``: starts or finds a SparkSession; ``active_session`` finds that of this thread,
  ``daemon`` loads the compiled walk before workers are forked, ``libraries`` checks what is
  installed.
- ``source``: the data source ``kafka_log``; ``options`` and ``schemas`` are its public face,
  ``tables`` has a module per table, ``log_growth`` finds how far directories have grown,
  ``stream_scope`` tells which stream a checkpoint belongs to. ``log_query`` has the conditions of a
  query; ``empty_reads`` refuses reads that could only be empty, ``file_faults`` reads that would
  return less than was planned.
- ``planning``: divides segments into tasks; ``engine`` runs them in processes or by Spark,
  ``tasks`` on Spark's workers.
- ``views``: SQL views over these tables, some with each record once; ``narrowing`` reads only what
  a query of Spark needs; ``log_database`` offers the tables in DuckDB, ``query_plan`` finds the
  columns that a query reads, ``read_ahead`` reads its parts in threads.
- ``embedded``: DuckDB, which runs the same SQL for small inputs.
- ``stores``: directories in an object store.
- ``scan``: reads files into columns, with a compiled walk over batch headers.
- ``forensics``: open transactions and the verdicts on them; the history of a transactional id. -
  ``questions``: the groups that wait.
- ``soundness``: checks every rule that a log must keep; ``describe`` summarises replicas.
- ``streaming``: streams records from Kafka, each once, and raises alerts on hanging transactions.
- ``traces``: event traces as tables, and analyses.
- ``cli``: its commands; ``campaign_engine``: a campaign of the lab on Spark's workers.

A function that is given paths raises BadInputError where one is no directory, or holds nothing of
Kafka's; one that reads a file lets the OSError of reading it through.

The names below are public; they are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from txnsim_spark.forensics.findings_frame import find_hanging
    from txnsim_spark.narrowing import query_logs
    from txnsim_spark.session import register, spark_session
    from txnsim_spark.streaming.lag_source import LagDataSource
    from txnsim_spark.traces.tables import export_traces, register_views, traces_as_views
    from txnsim_spark.views import register_log_views

__all__ = [
    "LagDataSource",
    "campaign",
    "export_traces",
    "find_hanging",
    "query_logs",
    "register",
    "register_log_views",
    "register_views",
    "spark_session",
    "traces_as_views",
]

_MODULES: Final = {
    "LagDataSource": "txnsim_spark.streaming.lag_source",
    "export_traces": "txnsim_spark.traces.tables",
    "find_hanging": "txnsim_spark.forensics.findings_frame",
    "query_logs": "txnsim_spark.narrowing",
    "register": "txnsim_spark.session",
    "register_log_views": "txnsim_spark.views",
    "register_views": "txnsim_spark.traces.tables",
    "spark_session": "txnsim_spark.session",
    "traces_as_views": "txnsim_spark.traces.tables",
}


def __getattr__(name: str) -> Any:
    if name == "campaign":
        from txnsim.on_demand_imports import borrowed

        return borrowed("txnsim_lab.campaigns", "campaign").campaign
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)
