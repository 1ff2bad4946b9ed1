"""Kafka's log directories, traces and live streams as tables of Apache Spark.

It needs the extra ``spark`` and Java 17; a program that does not ask for it imports none of it. It
knows the files, the wire protocol and the client of ``txnsim``. It refuses to know the broker and
the lab; its commands join by ``txnsim.on_demand_imports``.

- ``session``: the one way to a SparkSession; ``active_session`` is the one of this thread,
  ``daemon`` has the compiled walk loaded before workers are forked, ``libraries`` says what is not
  installed.
- ``source``: the data source ``kafka_log``; ``options`` and ``schemas`` are its public face,
  ``tables`` has a module per table, ``log_growth`` knows how far directories have grown,
  ``stream_scope`` which stream a checkpoint belongs to. What a query wants: ``log_query``;
  ``empty_reads`` refuses what could only be empty, ``file_faults`` what would be less than was
  planned.
- ``planning``: segments shared out to tasks; ``engine`` decides who does them, ``tasks`` gives them
  to Spark's workers.
- ``views``: SQL over these tables, each record once among them; ``log_database`` has them in
  DuckDB, ``query_plan`` says which columns of them a query reads.
- ``embedded``: DuckDB, which runs the same SQL where input is small.
- ``stores``: directories in an object store.
- ``scan``: from files to columns, the compiled walk over batch headers.
- ``forensics``: what is open and what becomes of it; the life of a transactional id.
- ``questions``: who waits.
- ``soundness``: every rule that a log must keep; ``describe``: what lies there.
- ``streaming``: records out of Kafka, each once, and alerts on what holds them back.
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
    from txnsim_spark.session import register, spark_session
    from txnsim_spark.streaming.lag_source import LagDataSource
    from txnsim_spark.traces.tables import export_traces, register_views, traces_as_views
    from txnsim_spark.views import register_log_views

__all__ = [
    "LagDataSource",
    "campaign",
    "export_traces",
    "find_hanging",
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
