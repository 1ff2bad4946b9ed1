"""What of traces as tables needs no Spark; the rest is judged in
tests/spark/pipeline/test_trace.py.
"""

from __future__ import annotations

from txnsim_spark.traces.schemas import TABLES
from txnsim_spark.traces.tables import is_export


def test_an_export_is_known_by_its_tables() -> None:
    assert is_export([*TABLES, ".crc"])
    assert not is_export(["events"])
    assert not is_export(["level-0.jsonl"])
