"""What may stand for a time; the DataFrame itself: tests/spark/pipeline/test_findings_table."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from txnsim.errors import BadInputError
from txnsim_spark import find_hanging
from txnsim_spark.forensics import findings_frame as module
from txnsim_spark.forensics.find_hanging import Search


class Session:
    """Knows what was registered, and makes no frame."""

    def createDataFrame(self, table: object, schema: object) -> object:  # noqa: N802 - Spark's name
        del schema
        return table


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        (1_700_000_000_000, 1_700_000_000_000),
        (datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("1700000000000", 1_700_000_000_000),
    ],
)
def test_a_time_is_given_in_many_ways(
    given: datetime | int | str | None,
    expected: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []

    def search(search: object, **_rest: object) -> object:
        asked.append(search)
        raise BadInputError("looked")

    monkeypatch.setattr(module, "register", lambda _spark: None)
    # Only here: a module that is imported meanwhile would keep the stand-in.
    monkeypatch.setattr(module, "searching", SimpleNamespace(Search=Search, find_hanging=search))
    with pytest.raises(BadInputError, match="looked"):
        find_hanging(Session(), str(tmp_path), as_of=given)  # type: ignore[arg-type]  # - a stand-in
    (one,) = asked
    assert getattr(one, "as_of_ms") == expected  # noqa: B009 - of an object
    assert getattr(one, "paths") == (tmp_path,)  # noqa: B009 - of an object


def test_what_is_no_time_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "register", lambda _spark: None)
    with pytest.raises(BadInputError, match="expected milliseconds since 1970, or ISO 8601"):
        find_hanging(Session(), tmp_path, as_of="yesterday")  # type: ignore[arg-type]  # - the same
