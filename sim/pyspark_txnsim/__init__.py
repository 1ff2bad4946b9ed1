"""Makes ``kafka_log`` known to every session of Spark 4 whose Python has txnsim: Spark looks for
``DefaultSource`` in modules whose names begin with ``pyspark_``, and nothing has to be registered.

Such a session may not allow sources in Python to take filters over, so this one leaves them to
Spark. ``txnsim.pipeline.register`` replaces it by the one that takes them.
"""

from __future__ import annotations

from importlib.util import find_spec

# Spark would end every query of any source in Python if this module could not be imported.
if all(find_spec(library) is not None for library in ("numba", "numpy", "pyarrow")):
    from pyspark.sql.datasource import DataSourceReader
    from pyspark.sql.types import StructType

    from txnsim.pipeline.source import KafkaLogDataSource, UnfilteredReader

    class DefaultSource(KafkaLogDataSource):
        """Format ``kafka_log`` without filters that are taken over."""

        def reader(self, schema: StructType) -> DataSourceReader:
            """See ``KafkaLogDataSource``."""
            return UnfilteredReader(*self.asked(schema))
