"""What is collected of a broker, and the archive it goes into."""

from __future__ import annotations

import json
import resource
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest

from tests.support.broker_dirs import BrokerDir, forget_the_end, move
from tests.support.logs import NOW, PID, LogDriver
from txnsim.errors import BadInputError
from txnsim.storage import names
from txnsim_spark.forensics import collection
from txnsim_spark.forensics._evidence import StartBatch
from txnsim_spark.forensics.collection import (
    MANIFEST,
    REPLICAS,
    CollectedReplica,
    Collection,
    collect,
    manifest_of,
    member_of,
    write_archive,
)

LATER = 9_000_000_000_000


def broker(tmp_path: Path) -> BrokerDir:
    driver = LogDriver()
    driver.txn(0, pid=9)
    driver.end(committed=True, pid=9)
    driver.txn(0, count=2)
    made = BrokerDir(tmp_path / "broker-1")
    forget_the_end(made.replica(driver))
    made.coordinator(move("Empty"))
    return made


def collected(log_dir: Path) -> Collection:
    return collect([log_dir], now_ms=LATER, progress=lambda _: None)


def test_what_a_replica_has_open_is_collected_with_its_markers(tmp_path: Path) -> None:
    found = collected(broker(tmp_path).kill())
    replica = next(one for one in found.replicas if one.state.replica.topic == "orders")
    (one,) = replica.opened
    assert (one.txn.producer_id, one.txn.start_offset, one.txn.start_timestamp_ms) == (PID, 2, NOW)
    assert (one.start_batch, one.gaps) == (StartBatch.THIS_PRODUCERS, ())
    assert (replica.markers, replica.markers_from) == ({9: 1}, 0)
    assert (replica.was_read, replica.state.segments, replica.state.unread) == (True, (), ())
    (log,) = found.logs
    assert [entry.newest.transactional_id for entry in log.log.entries] == ["app"]


def test_the_manifest_says_what_it_cost(tmp_path: Path) -> None:
    manifest = collected(broker(tmp_path).kill()).manifest
    size = sum(one.stat().st_size for one in tmp_path.rglob(f"*{names.LOG_SUFFIX}"))
    assert (manifest.brokers, manifest.replicas, manifest.coordinator_logs) == ((1,), 1, 1)
    assert (manifest.open_transactions, manifest.metadata_age) == (1, None)
    assert (manifest.segment_bytes, manifest.read_bytes, manifest.read_again) == (size, size, 0)


def test_an_end_that_was_caught_in_a_write_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = broker(tmp_path).kill()
    segment = log_dir / "orders-0" / names.file_name(0, names.LOG_SUFFIX)
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-5])
    torn = collected(log_dir)
    assert torn.manifest.read_again == 1
    assert not next(one for one in torn.replicas if one.state.replica.topic == "orders").opened
    again = collection._read_again

    def written(*args: object) -> None:
        segment.write_bytes(whole)
        again(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(collection, "_read_again", written)
    found = collected(log_dir)
    replica = next(one for one in found.replicas if one.state.replica.topic == "orders")
    assert (found.manifest.read_again, found.manifest.problems) == (1, ())
    assert (replica.notes.cut_off, len(replica.opened)) == (None, 1)


def test_an_archive_brings_back_what_went_in(tmp_path: Path) -> None:
    found = collected(broker(tmp_path).kill())
    target = tmp_path / "one.zip"
    assert write_archive(target, found) == target.stat().st_size
    assert manifest_of(target) == found.manifest
    assert member_of(target, REPLICAS, tuple[CollectedReplica, ...]) == found.replicas
    with pytest.raises(BadInputError, match="is there already"):
        write_archive(target, found)


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "one.zip"
    target.write_bytes(b"nothing")
    with pytest.raises(BadInputError, match="no archive of 'txnsim logs collect'"):
        manifest_of(target)
    with pytest.raises(BadInputError, match=REPLICAS):
        member_of(target, REPLICAS, tuple[CollectedReplica, ...])
    newer = {**msgspec.to_builtins(collected(broker(tmp_path).kill()).manifest), "version": 2}
    target.unlink()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(MANIFEST, json.dumps(newer))
    with pytest.raises(BadInputError, match="an archive of version 2, 1 is read"):
        manifest_of(target)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process has")
def test_an_archive_may_not_take_all_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fourteen megabytes took six gigabytes: a million times the same, well packed."""
    monkeypatch.setattr(collection, "FREE_BYTES", 128 << 20)
    target = tmp_path / "large.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(REPLICAS, msgspec.msgpack.encode([{"a": [[]] * 100}] * 300_000))
    assert target.stat().st_size < 1 << 20
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(BadInputError, match="far more memory"):
        member_of(target, REPLICAS, list[dict[str, list[list[int]]]])
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_a_manifest_is_small(tmp_path: Path) -> None:
    target = tmp_path / "large.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, b" " * (collection.MANIFEST_BYTES_MAX + 1))
    with pytest.raises(BadInputError, match="more than are read"):
        manifest_of(target)
