"""The data pipeline: Kafka's log directories, traces and live streams as tables of Apache Spark.

Everything here needs the extra ``spark`` and Java 17. A program that does not ask for it
imports none of it. It knows the storage formats, the wire protocol and the client of ``txnsim``.
It refuses to know the broker and the lab; its commands join by ``txnsim.extensions``.

- ``session``: the one way to a SparkSession; ``daemon`` has the compiled walk loaded before workers
  are forked.
- ``source``: the data source ``kafka_log``; ``options`` and ``schemas`` are its public face,
  ``planning`` shares segments out to tasks, ``following`` knows how far directories have grown,
  ``tables`` has a module per table.
- ``stores``: directories in an object store or in HDFS.
- ``tables.read_here``: the same tables in this process, where there is little.
- ``scan``: from files to columns, the compiled walk over batch headers.
- ``forensics``: what is open and what becomes of it; the life of a transactional id.
- ``questions``: who waits, which application it was, what was lost, why the log grows.
- ``soundness``: every rule that a log must keep.
- ``export``: tables as Parquet; ``extract``: all records of one transactional id.
- ``streaming``: records out of Kafka, each once, and alerts on what holds them back.
- ``traces``: event traces as tables, analyses, figures.
- ``spreading``: work of the lab on Spark's workers.

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
    from txnsim_spark.traces.plots import draw_all
    from txnsim_spark.traces.tables import export_traces, register_views, traces_as_views

__all__ = [
    "LagDataSource",
    "campaign",
    "draw_all",
    "export_traces",
    "find_hanging",
    "register",
    "register_views",
    "spark_session",
    "traces_as_views",
]

_MODULES: Final = {
    "LagDataSource": "txnsim_spark.streaming.lag_source",
    "draw_all": "txnsim_spark.traces.plots",
    "export_traces": "txnsim_spark.traces.tables",
    "find_hanging": "txnsim_spark.forensics.findings_frame",
    "register": "txnsim_spark.session",
    "register_views": "txnsim_spark.traces.tables",
    "spark_session": "txnsim_spark.session",
    "traces_as_views": "txnsim_spark.traces.tables",
}


def __getattr__(name: str) -> Any:
    if name == "campaign":
        from txnsim.extensions import borrowed

        return borrowed("txnsim_lab.campaigns", "campaign").campaign
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)
