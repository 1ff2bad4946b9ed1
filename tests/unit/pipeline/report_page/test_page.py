"""What a page leaves out is said; what it shows: test_making.py."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("jinja2", reason="the extra spark is not installed")

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import LogDriver
from txnsim.pipeline.forensics.find_hanging import Search
from txnsim.pipeline.report_page.making import write_report


@pytest.mark.slow
def test_time_lines_that_are_left_out_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txnsim.pipeline.report_page.page.TIME_LINES_MAX", 0)
    driver = LogDriver()
    driver.txn(0)
    driver.end(committed=True)
    made = BrokerDir(tmp_path / "broker-1")
    made.replica(driver)
    made.coordinator(move("Empty"))
    search = Search(paths=(made.stop(),), never_spark=True)
    file = tmp_path / "report.html"
    write_report(search, file, new_session=lambda: pytest.fail("no Spark"), progress=lambda _: None)
    text = file.read_text("utf-8")
    assert "1 more partitions with transactions are left out." in text
    assert "<svg" not in text
