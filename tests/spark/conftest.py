"""Fixtures for tests of what works, or is refused, where no Java and no Spark session is."""

from __future__ import annotations

import pytest


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Java, and a process that nobody has submitted."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)


@pytest.fixture
def without_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """No session is found, although another test of this process may have started one."""
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
