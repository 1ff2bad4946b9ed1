from __future__ import annotations

from pathlib import Path

import pytest

from txnsim.errors import ConfigError
from txnsim.pipeline.streaming.store import LocalStore, open_store


def test_a_directory_appears_whole_and_once(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.write("staged/a", b"1")
    store.write("again/a", b"2")
    assert store.publish("staged", "final/x")
    assert not store.publish("again", "final/x")
    assert store.read("final/x/a") == b"1"
    assert (store.names(""), store.names("final")) == (["again", "final"], ["x"])
    store.remove("again")
    store.remove("again")
    assert store.names("") == ["final"]


def test_what_is_not_there_is_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    assert (store.names("none"), store.read("none")) == ([], None)
    with pytest.raises(FileNotFoundError):
        store.publish("none", "final")


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_a_path_is_taken_in_any_form(form: str, tmp_path: Path) -> None:
    store = open_store(form.format(tmp_path / "a b"))
    assert store.url("x") == f"file://{tmp_path}/a b/x"


@pytest.mark.parametrize(
    ("location", "message"),
    [("s3a://bucket/x", "a rename in this object store"), ("hdfs://h/x", "needs a SparkSession")],
)
def test_what_cannot_commit_in_one_step_is_refused(location: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_store(location)
