"""``logs report``: the file, parsed as a browser parses it."""

from __future__ import annotations

import base64
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

pytest.importorskip("jinja2", reason="the extra spark is not installed")

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import NOW, LogDriver
from tests.support.no_spark import no_session
from tests.support.position_logs import HERE, at, offsets_log, sent
from tests.support.remade_topic import remade_topic
from txnsim_spark.forensics.find_hanging import Search
from txnsim_spark.report_page import page as pages
from txnsim_spark.report_page._lives import Lives
from txnsim_spark.report_page.page import REMARK, Written, plots, write_report

AS_OF_MS = NOW + 3_600_000
SECRET = b"a secret value"
ODD_ID = "<script>alert('app')</script>"


class Parsed(HTMLParser):
    """Texts, attributes and elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def of(self, name: str) -> list[str]:
        return [value for one, value in self.attributes if one == name]


class Report(NamedTuple):
    """What was written, the file, and what a browser finds in it."""

    done: Written
    file: Path
    page: Parsed


def written(path: Path) -> Report:
    search = Search(paths=(path,), as_of_ms=AS_OF_MS)
    file = path.parent / "report.html"
    done = write_report(search, file, new_session=no_session, progress=lambda _: None)
    return Report(done, file, Parsed(file.read_text("utf-8")))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """One committed, one aborted, one that hangs; a group that waits behind it."""
    driver = LogDriver()
    driver.txn(0, value=SECRET)
    driver.end(committed=True)
    driver.txn(1, value=SECRET)
    driver.end(committed=False)
    driver.txn(2, value=SECRET)
    made = BrokerDir(tmp_path_factory.mktemp("hanging") / "broker-1")
    made.replica(driver)
    made.coordinator(move("Ongoing", HERE, name=ODD_ID), move("CompleteAbort", name=ODD_ID))
    offsets_log(made.path, sent(at(0, "readers")))
    return written(made.stop())


@pytest.mark.slow
def test_a_page_says_what_hangs_on_which_evidence_and_what_ends_it(report: Report) -> None:
    done, _, page = report
    assert (done.partitions, done.transactions) == (2, 2)
    assert page.texts.count("hanging") == 2  # of the finding, and in the legend
    assert "orders-0 from offset 4: " in page.texts
    assert "Evidence: sound." in page.texts
    assert any("repair --topic orders --partition 0 --yes" in one for one in page.texts)
    assert "coordinator.log_partition" in page.texts
    assert "readers" in page.texts


def test_each_transaction_has_its_bar(report: Report) -> None:
    page = report.page
    kinds = [value for value in page.of("class") if value in ("committed", "aborted", "hanging")]
    assert kinds == ["committed", "aborted", "hanging"]
    assert "orders-0: 3 transactions" in page.texts


def test_links_lead_to_time_lines(report: Report) -> None:
    page = report.page
    assert page.of("href") == ["#orders-0"]  # nothing has happened on __consumer_offsets-0
    assert "orders-0" in page.of("id")


def test_it_needs_no_network_and_runs_nothing(report: Report) -> None:
    page = report.page
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert all(one.startswith("data:image/svg+xml;base64,") for one in page.of("src"))
    assert all(one.startswith("#") for one in page.of("href"))
    assert any(one.startswith("default-src 'none'") for one in page.of("content"))


def test_figures_are_drawn(report: Report) -> None:
    page = report.page
    assert page.of("alt") == [
        "From a transaction's first record on a partition to its marker",
        "Transactions that ended, by the times of their markers",
        "High watermark − last stable offset",
    ]
    for source in page.of("src"):
        ElementTree.fromstring(base64.b64decode(source.partition(",")[2]))


def test_no_record_is_in_it_and_names_are_text(report: Report) -> None:
    text = report.file.read_text("utf-8")
    assert REMARK in text
    assert SECRET.decode() not in text
    assert ODD_ID not in text
    assert ODD_ID in report.page.texts


def test_where_nothing_happened_that_is_said(tmp_path: Path) -> None:
    made = BrokerDir(tmp_path / "broker-1")
    made.replica(LogDriver())
    made.coordinator(move("Empty"))
    done, _, page = written(made.stop())
    assert (done.partitions, done.transactions) == (1, 0)
    assert "No transaction is open." in page.texts
    assert "svg" not in page.tags
    assert page.of("src") == []


def test_the_log_of_a_deleted_topic_is_named_and_not_drawn(tmp_path: Path) -> None:
    found = written(remade_topic(tmp_path / "disks"))
    assert found.done.partitions == 1
    assert any(
        text.startswith("stale: orders, partition 0, on broker 2") for text in found.page.texts
    )


def test_time_lines_that_are_left_out_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "TIME_LINES_MAX", 0)
    driver = LogDriver()
    driver.txn(0)
    driver.end(committed=True)
    made = BrokerDir(tmp_path / "broker-1")
    made.replica(driver)
    found = written(made.stop()).page
    assert "1 more partitions with transactions are left out." in found.texts
    assert "svg" not in found.tags


def test_nothing_is_drawn_of_nothing() -> None:
    assert list(plots(Lives([]), ())) == []


@pytest.mark.slow
def test_what_ended_is_drawn_though_it_began_unseen() -> None:
    lives = Lives([])
    lives.ended_ms[False].extend([5, 5_000])
    (drawn,) = plots(lives, ())
    assert drawn[0] == "Transactions that ended, by the times of their markers"
    assert b"aborted" in drawn[1]
