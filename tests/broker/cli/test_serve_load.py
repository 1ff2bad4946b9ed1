"""The arguments of ``serve`` for disks."""

from __future__ import annotations

import argparse
import json
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.log_dirs import held, write_disk
from tests.support.logs import NOW, LogDriver, plain
from tests.support.metadata_logs import feature, partition, topic, write_metadata_log
from txnsim.cli import _serve_load as serve_load
from txnsim.cli import serve
from txnsim.errors import ConfigError
from txnsim.metadata.image import ClusterImage
from txnsim.runtime.real import real_environment, run
from txnsim.server.loading import LoadedCluster
from txnsim.server.options import ClusterOptions
from txnsim.storage.replica_loading import Loss
from txnsim.types import BrokerId, ProducerId

ORDERS = uuid.UUID(int=11)


def arguments(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    return parser.parse_args(argv)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A broker's directory with two topics."""
    path = tmp_path / "disk"
    driver = LogDriver()
    for _ in range(4):
        assert driver.append(plain(value=bytes(500_000))) == 0
    write_disk(
        path,
        {("orders", 0): driver.log, ("other", 0): LogDriver().log},
        node_id=4,
        topic_ids={"orders": ORDERS},
    )
    return path


def refused(*argv: str) -> str:
    with pytest.raises(ConfigError) as caught:
        serve_load.disks_of(arguments(*argv))
    return str(caught.value)


def test_without_directories_there_are_none() -> None:
    assert serve_load.disks_of(arguments()) is None
    assert refused("--load-topic", "orders") == "--load-topic orders: only with --load"
    assert refused("--clock-at", "stopped") == "--clock-at stopped: only with --load"


def test_directories_are_named_together_or_one_by_one(disk: Path) -> None:
    args = arguments("--load", "a", "b", "--load", "c")
    assert args.load == [Path("a"), Path("b"), Path("c")]
    disks = serve_load.disks_of(arguments("--load", str(disk), "--load-topic", "orders"))
    assert disks is not None
    assert [str(one.replica.topic_partition) for _, one in disks.all_folders()] == ["orders-0"]


def test_a_directory_on_which_a_broker_runs_is_loaded_with_a_warning(
    disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with held(disk):
        assert serve_load.disks_of(arguments("--load", str(disk))) is not None
    assert capsys.readouterr().err.startswith(f"txnsim: {disk}: a broker runs there")
    assert serve_load.disks_of(arguments("--load", str(disk))) is not None
    assert capsys.readouterr().err == ""


def test_arguments_that_contradict_the_disks_are_refused(disk: Path) -> None:
    load = ("--load", str(disk))
    assert refused(*load, "--load-topic", "x") == "--load-topic x: no directory holds it"
    assert refused(*load, "--brokers", "3").startswith("--brokers 3: the directories")
    told = refused(*load, "--load-limit-mb", "1")
    assert told.startswith("--load: 2 MB of segments would be kept in memory (orders 2 MB, other 0")
    write_metadata_log(
        disk / "__cluster_metadata-0",
        [feature("transaction.version", 1), topic("orders", ORDERS), partition(ORDERS)],
    )
    assert refused(*load, "--transaction-version", "2").startswith(
        "--transaction-version 2: it is 1 on the disks"
    )
    assert serve_load.disks_of(arguments(*load, "--transaction-version", "1")) is not None


def test_a_file_that_cannot_be_read_is_named(disk: Path) -> None:
    (disk / "meta.properties").unlink()
    assert "meta.properties is missing" in refused("--load", str(disk))
    (disk / "orders-0" / "partition.metadata").unlink()
    (disk / "orders-0" / "partition.metadata").mkdir()
    (disk / "meta.properties").write_text("node.id=4\ncluster.id=abc\nversion=1\n")
    assert refused("--load", str(disk)).endswith("partition.metadata: Is a directory")


def test_the_disks_settle_how_many_brokers_there_are_and_of_which_cluster(disk: Path) -> None:
    args = arguments("--load", str(disk), "--port", "0", "--as-version", "4=3.9")
    disks = serve_load.disks_of(args)
    assert disks is not None
    options = serve.options_from(args, disks)
    assert (options.brokers, options.settings.cluster_id) == (1, "abc")
    loaded = serve_load.load(options, disks, now_ms=NOW)
    assert loaded.broker_ids == (4,)
    assert loaded.loaded is not None
    assert serve_load.line(loaded.loaded) == "loaded 2.0 MB: 2 replicas, their disks untouched"


def test_a_file_that_vanishes_is_named(disk: Path) -> None:
    disks = serve_load.disks_of(arguments("--load", str(disk)))
    assert disks is not None
    for path in (disk / "orders-0").iterdir():
        path.unlink()
    (disk / "orders-0").rmdir()
    with pytest.raises(ConfigError, match="orders-0: No such file or directory"):
        serve_load.load(ClusterOptions(brokers=1), disks, now_ms=NOW)


# The clock


def clock_at(text: str, *, disk: Path | None = None) -> int:
    async def main() -> int:
        environment = real_environment()
        disks = None if disk is None else serve_load.disks_of(arguments("--load", str(disk)))
        serve_load.set_clock(environment, text, disks)
        return environment.clock.now_ms()

    return run(main())


@pytest.mark.parametrize(
    "text", [str(NOW), "2023-11-14T22:13:20Z", "2023-11-14T22:13:20", "2023-11-14T23:13:20+01:00"]
)
def test_the_clock_begins_where_it_is_told(text: str) -> None:
    assert datetime.fromtimestamp(NOW / 1_000, UTC).isoformat() == "2023-11-14T22:13:20+00:00"
    assert NOW <= clock_at(text) < NOW + 60_000


def test_the_clock_begins_where_the_disks_stopped(disk: Path, tmp_path: Path) -> None:
    assert NOW <= clock_at("stopped", disk=disk) < NOW + 60_000
    write_disk(tmp_path / "empty", {("orders", 0): LogDriver().log})
    with pytest.raises(ConfigError, match="no record on the disks"):
        clock_at("stopped", disk=tmp_path / "empty")


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(ConfigError, match="--clock-at noon: expected a time"):
        clock_at("noon")


# What is told


def loaded_with(losses: int, left_out: int) -> LoadedCluster:
    return LoadedCluster(
        image=ClusterImage(cluster_id="abc"),
        logs={BrokerId(1): ()},
        first_producer_id=ProducerId(0),
        size=7,
        losses=tuple(
            Loss(path=f"f{number}", position=3, size=9, reason="torn") for number in range(losses)
        ),
        left_out=tuple(f"g{number}: gone" for number in range(left_out)),
    )


def test_each_loss_is_told_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    serve_load.warn_of_losses(loaded_with(1, 1))
    assert capsys.readouterr().err == (
        "txnsim: f0, byte 3: torn; 9 bytes are thrown away\ntxnsim: g0: gone\n"
    )


def test_a_cluster_without_its_coordinators_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = LogDriver()
    driver.txn(0)
    write_disk(tmp_path, {("orders", 0): driver.log})
    disks = serve_load.disks_of(arguments("--load", str(tmp_path)))
    assert disks is not None
    options = serve_load.load(ClusterOptions(brokers=1), disks, now_ms=NOW)
    assert options.loaded is not None
    serve_load.warn_of_losses(options.loaded)
    assert capsys.readouterr().err.endswith(": all of them will seem to hang\n")


def test_many_losses_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    serve_load.warn_of_losses(loaded_with(22, 21))
    lines = capsys.readouterr().err.splitlines()
    assert (len(lines), lines[-1]) == (
        41,
        "txnsim: and 3 more of that kind; --json has all of them",
    )


def test_all_of_it_is_there_as_json() -> None:
    told: dict[str, Any] = json.loads(json.dumps(serve_load.facts(loaded_with(22, 1))))
    assert (told["bytes"], told["replicas"], len(told["losses"])) == (7, 0, 22)
    assert told["losses"][0] == {"path": "f0", "position": 3, "size": 9, "reason": "torn"}
    assert told["left_out"] == ["g0: gone"]
