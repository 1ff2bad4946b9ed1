"""Archives of brokers, judged as their directories are."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.spark.pipeline.many_brokers import make
from tests.support.broker_dirs import BrokerDir, forget_the_end, move
from tests.support.logs import NOW, LogDriver
from tests.support.no_spark import no_session
from txnsim.errors import BadInputError
from txnsim.log.config import LogConfig
from txnsim.releases.rules import LATEST
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim_spark.forensics._evidence import Status
from txnsim_spark.forensics.collected_reading import find_hanging_in_archives
from txnsim_spark.forensics.collection import collect, write_archive
from txnsim_spark.forensics.find_hanging import Search, find_hanging
from txnsim_spark.forensics.findings import Report

HOUR = 3_600_000
LATER = 9_000_000_000_000


def search(*paths: Path, topic: str | None = None) -> Search:
    topics = frozenset() if topic is None else frozenset({topic})
    return Search(paths=paths, topics=topics, as_of_ms=NOW + HOUR, never_spark=True)


def archives(*log_dirs: Path) -> list[Path]:
    made = []
    for log_dir in log_dirs:
        found = collect([log_dir], now_ms=LATER, progress=lambda _: None)
        made.append(log_dir.with_suffix(".zip"))
        write_archive(made[-1], found)
    return made


def by_directories(*log_dirs: Path) -> Report:
    found = find_hanging(
        search(*log_dirs),
        new_session=no_session,
        progress=lambda _: None,
    )
    return msgspec.structs.replace(
        found, source=msgspec.structs.replace(found.source, directories=())
    )


def by_archives(*log_dirs: Path, topic: str | None = None) -> Report:
    found = find_hanging_in_archives(
        search(*archives(*log_dirs), topic=topic), progress=lambda _: None
    )
    return msgspec.structs.replace(
        found, source=msgspec.structs.replace(found.source, directories=())
    )


@pytest.mark.costly
@pytest.mark.slow
def test_many_brokers_have_one_report_either_way(tmp_path: Path) -> None:
    make(tmp_path / "all", 5, 120)
    log_dirs = sorted((tmp_path / "all").iterdir())
    found = by_archives(*log_dirs)
    assert found == by_directories(*log_dirs)
    verdicts = [one.verdict for one in found.findings]
    assert (verdicts.count(OpenTxnStatus.HANGING), verdicts.count(OpenTxnStatus.ALIVE)) == (2, 2)
    assert all(one.evidence.is_sound for one in found.findings)


def replica(made: BrokerDir, *, ends_in: int | None, roll: int = 1 << 30) -> None:
    """An open transaction; where it has an end, so many batches behind that."""
    driver = LogDriver(LogConfig(rules=LATEST, roll_bytes=roll))
    driver.txn(0)
    if ends_in is not None:
        driver.end(committed=True)
        for number in range(ends_in):
            driver.txn(number, pid=9)
    forget_the_end(made.replica(driver))


@pytest.fixture
def apart(tmp_path: Path) -> list[BrokerDir]:
    made = [BrokerDir(tmp_path / f"broker-{one}", one) for one in (1, 2)]
    made[0].coordinator(move("Empty"))
    replica(made[0], ends_in=None)
    return made


def test_a_replica_that_is_behind_contradicts_nobody(apart: list[BrokerDir]) -> None:
    replica(apart[1], ends_in=0)
    log_dirs = [one.kill() for one in apart]
    found = by_archives(*log_dirs)
    assert found == by_directories(*log_dirs)
    assert found.findings == ()


def test_a_marker_that_is_not_there_is_a_contradiction_here_too(apart: list[BrokerDir]) -> None:
    driver = LogDriver()
    driver.txn(0, pid=9)
    driver.end(committed=True, pid=9)
    forget_the_end(apart[1].replica(driver))
    log_dirs = [one.kill() for one in apart]
    found = by_archives(*log_dirs)
    assert found == by_directories(*log_dirs)
    assert OpenTxnStatus.REPLICAS_DISAGREE in {one.verdict for one in found.findings}


def test_a_marker_below_what_was_collected_leaves_it_open(apart: list[BrokerDir]) -> None:
    """Broker 2 has the marker in its first segment, and a later leader's tail without it."""
    replica(apart[1], ends_in=8, roll=200)
    log_dirs = [one.kill() for one in apart]
    (log_dirs[0] / "orders-0" / "leader-epoch-checkpoint").write_text("0\n1\n5 1\n")
    found = by_archives(*log_dirs).findings
    app = next(one for one in found if one.producer_id == 7)
    assert app.evidence.status is Status.INCOMPLETE
    assert app.abort is None
    (reason,) = app.evidence.reasons
    assert "broker 2's markers are collected from offset" in reason


def test_only_some_topics(apart: list[BrokerDir]) -> None:
    replica(apart[1], ends_in=None)
    log_dirs = [one.kill() for one in apart]
    assert by_archives(*log_dirs, topic="nothing").findings == ()


def test_evidence_is_still_told(apart: list[BrokerDir]) -> None:
    """The coordinator's partition of the other broker is missing."""
    replica(apart[1], ends_in=None)
    found = by_archives(apart[1].kill())
    assert [one.evidence.status for one in found.findings] == [Status.INCOMPLETE]


def test_archives_and_directories_are_not_mixed(apart: list[BrokerDir]) -> None:
    (archive,) = archives(apart[0].kill())
    with pytest.raises(BadInputError, match="or directories, not both"):
        find_hanging_in_archives(search(archive, apart[0].path), progress=lambda _: None)
