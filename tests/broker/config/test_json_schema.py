from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from txnsim.config.json_schema import cluster_schema

JUDGE = jsonschema.Draft202012Validator(cluster_schema())


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"brokers": 3, "http": 9080, "topics": {"orders": 3}, "as_version": "3.9"},
        {"settings": {"transaction_max_timeout_ms": 60000}},
        {"settings": {"transaction.max.timeout.ms": 60000, "log.dirs": "/var/lib/kafka"}},
    ],
)
def test_what_serve_takes_is_accepted(document: dict[str, Any]) -> None:
    assert list(JUDGE.iter_errors(document)) == []


@pytest.mark.parametrize(
    "document",
    [
        {"broker": 3},
        {"brokers": 0},
        {"topics": {"orders": 0}},
        {"settings": {"transaction.max.timeout.ms": "long"}},
        {"settings": {"transaction_max_timeout_ms": 0}},
        {"security": {"listener": {}}},
    ],
    ids=str,
)
def test_what_it_refuses_is_refused(document: dict[str, Any]) -> None:
    assert list(JUDGE.iter_errors(document))
