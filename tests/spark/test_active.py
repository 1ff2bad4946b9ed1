"""``active_session``; beside a real stream's session: ``tests/spark/pipeline/test_active.py``."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from txnsim_spark.active import active_session


@pytest.fixture
def jvm_keeps(monkeypatch: pytest.MonkeyPatch) -> object:
    """What the JVM has as the session of this thread."""
    kept = object()
    named = MagicMock()
    named.getActiveSession.return_value.get.return_value = kept
    monkeypatch.setattr(SparkContext, "_active_spark_context", SimpleNamespace(_jvm=None))
    monkeypatch.setattr(SparkSession, "_get_j_spark_session_class", lambda _jvm: named)
    return kept


def named(monkeypatch: pytest.MonkeyPatch, *, is_that_of_the_jvm: bool) -> SparkSession:
    """What PySpark names."""
    session = MagicMock(spec=SparkSession)
    session._jsparkSession = MagicMock()
    session._jsparkSession.equals.return_value = is_that_of_the_jvm
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: session)
    return session


def test_where_pyspark_names_that_of_the_jvm_it_is_taken(
    monkeypatch: pytest.MonkeyPatch, jvm_keeps: object
) -> None:
    session = named(monkeypatch, is_that_of_the_jvm=True)
    assert active_session() is session


def test_else_that_of_the_jvm_is_taken(monkeypatch: pytest.MonkeyPatch, jvm_keeps: object) -> None:
    named(monkeypatch, is_that_of_the_jvm=False)
    made: list[object] = []
    monkeypatch.setattr(
        SparkSession, "__init__", lambda _self, _context, java_session: made.append(java_session)
    )
    assert isinstance(active_session(), SparkSession)
    assert made == [jvm_keeps]


def test_a_session_without_a_jvm_is_as_pyspark_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    session = named(monkeypatch, is_that_of_the_jvm=False)
    assert active_session() is session
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    assert active_session() is None
