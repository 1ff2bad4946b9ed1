"""When a cluster was stopped, as far as its disks know."""

from __future__ import annotations

from pathlib import Path

from tests.support.log_dirs import write_disk
from tests.support.logs import NOW, LogDriver, plain
from txnsim.storage.disks import find_disks
from txnsim.storage.newest_time import newest_time


def stamped(*times: int) -> LogDriver:
    driver = LogDriver()
    for time in times:
        driver.append(plain(timestamp=time))
    return driver


def test_coordinators_clocks_are_asked_before_producers(tmp_path: Path) -> None:
    write_disk(
        tmp_path,
        {("orders", 0): stamped(NOW + 900_000).log, ("__transaction_state", 3): stamped(NOW).log},
    )
    assert newest_time(find_disks([tmp_path])) == NOW


def test_records_have_to_do_where_no_coordinator_wrote(tmp_path: Path) -> None:
    write_disk(tmp_path, {("orders", 0): stamped(NOW, NOW - 5).log, ("orders", 1): stamped().log})
    assert newest_time(find_disks([tmp_path])) == NOW


def test_without_a_record_nothing_is_known(tmp_path: Path) -> None:
    write_disk(tmp_path, {("orders", 0): stamped().log})
    assert newest_time(find_disks([tmp_path])) is None
