"""What an export refuses before it reads, and what it writes without Spark."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow.dataset as ds
import pytest

from tests.support.broker_dirs import BrokerDir, move
from tests.support.full_disk import little_room
from tests.support.logs import LogDriver
from tests.support.soundness import write_log_dir
from txnsim.errors import BadInputError, ConfigError
from txnsim_spark.engine import Engine, Way, alone
from txnsim_spark.export import NO_TOPIC, Export, check, export, tables_of
from txnsim_spark.schemas import TABLES


@pytest.fixture
def wanted(tmp_path: Path) -> Export:
    write_log_dir(tmp_path / "broker-1", 1, {})
    return Export(
        paths=(tmp_path / "broker-1",), target=tmp_path / "out", tables=("batches", "errors")
    )


def _with(wanted: Export, **changes: object) -> Export:
    changed: Export = msgspec.structs.replace(wanted, **changes)
    return changed


def test_a_folder_that_is_not_there_is_fine(wanted: Export) -> None:
    check(wanted)
    wanted.target.mkdir()
    check(wanted)


def test_a_table_that_has_no_room_is_not_there(tmp_path: Path) -> None:
    made = BrokerDir(tmp_path / "broker-1")
    made.coordinator(move("Empty"))
    wanted = Export(paths=(made.stop(),), target=tmp_path / "out", tables=("batches",))
    with little_room(file_bytes_max=100), pytest.raises(ConfigError, match=r"out/batches: .*room"):
        export(alone(), wanted, "batches")
    assert not wanted.target.exists()
    assert export(alone(), wanted, "batches").rows == 1


def test_all_is_every_table(wanted: Export) -> None:
    assert tables_of(wanted) == ("batches", "errors")
    assert tables_of(_with(wanted, tables=("all",))) == tuple(TABLES)


@pytest.mark.parametrize("tables", [("batch",), ("batches", "all"), ()])
def test_an_unknown_table_is_refused(wanted: Export, tables: tuple[str, ...]) -> None:
    with pytest.raises(BadInputError, match="there is no table"):
        check(_with(wanted, tables=tables))


def test_nothing_is_written_over_unless_asked(wanted: Export) -> None:
    (wanted.target / "errors").mkdir(parents=True)
    with pytest.raises(BadInputError, match="is there already; name another folder"):
        check(wanted)
    check(_with(wanted, overwrite=True))


def test_a_file_is_no_target(wanted: Export) -> None:
    wanted.target.touch()
    with pytest.raises(BadInputError, match="is no directory"):
        check(wanted)


def test_what_holds_nothing_of_kafka_is_refused(wanted: Export) -> None:
    with pytest.raises(BadInputError):
        check(_with(wanted, paths=(wanted.target / "nowhere",)))


def test_files_by_topic_hold_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txnsim_spark.export.GROUP_ROWS", 1)
    driver = LogDriver()
    driver.txn(0, count=2)
    driver.end(committed=True)
    for broker in (1, 2):
        made = BrokerDir(tmp_path / f"broker-{broker}", broker)
        made.coordinator(move("Empty"))
        made.replica(driver)
        made.stop()
    (tmp_path / "broker-1" / "recovery-point-offset-checkpoint").write_text("junk")
    wanted = Export(paths=(tmp_path,), target=tmp_path / "out", tables=("all",))
    written = export(alone(), wanted, "batches")
    assert (written.rows, written.files) == (6, 4)
    read = ds.dataset(written.directory, partitioning="hive").to_table()
    assert read.num_rows == 6
    orders = read.filter(ds.field("topic") == "orders").select(["broker", "base_offset"])
    assert orders.to_pydict() == {"broker": [1, 1, 2, 2], "base_offset": [0, 2, 0, 2]}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"batches"}
    monkeypatch.setattr(Engine, "way", lambda _self, _cost: Way.PROCESSES)
    several = msgspec.structs.replace(wanted, target=tmp_path / "several")
    apart = export(alone(), several, "batches")
    assert apart.rows == 6
    again = ds.dataset(apart.directory, partitioning="hive").to_table()
    order = [("broker", "ascending"), ("topic", "ascending"), ("base_offset", "ascending")]
    assert again.sort_by(order) == read.sort_by(order)
    errors = export(alone(), wanted, "errors")
    assert errors.rows == 1
    assert [path.name for path in Path(errors.directory).iterdir()] == [f"topic={NO_TOPIC}"]
    assert export(alone(), wanted, "offsets").files == 0
