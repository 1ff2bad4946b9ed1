"""Makes ``kafka_log`` known to every session of Spark 4 whose Python has txnsim: Spark looks for
``DefaultSource`` in modules whose names begin with ``pyspark_``, and nothing has to be registered.

What a session has set is not known here. ``txnsim_spark.register`` tells it: how files are
divided, and how stores are reached.
"""

from __future__ import annotations

from importlib.util import find_spec

# Spark would end every query of any source in Python if this module could not be imported.
if all(find_spec(library) is not None for library in ("numba", "numpy", "pyarrow")):
    from txnsim_spark.source import KafkaLogDataSource

    class DefaultSource(KafkaLogDataSource):
        """Format ``kafka_log``."""
