"""docs/troubleshooting.md: each section has a story that shows it, which comes to what it declares
and tells the errors of the heading. What it asks of a cluster is answered as it says.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from typing import Final

import pytest

from tests.docs import ROOT
from tests.support.txnsim_server import TxnsimServer
from txnsim.cli.main import main
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer
from txnsim.types import ProducerIdAndEpoch
from txnsim_lab.scenario import catalog

PAGE: Final = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
SECTIONS: Final = dict(text.split("\n", 1) for text in PAGE.split("\n## ")[1:])
STORY: Final = re.compile(r"^\$ txnsim (scenario run .+)$", re.MULTILINE)
ADDRESS: Final = "127.0.0.1:9092"
ASKED: Final = re.compile(r"^\$ txnsim (txns .+)$", re.MULTILINE)
"""Of a cluster that runs."""
ERROR: Final = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.parametrize("title", SECTIONS)
def test_its_stories_show_it(title: str, capfd: pytest.CaptureFixture[str]) -> None:
    stories = STORY.findall(SECTIONS[title])
    assert stories
    for story in stories:
        assert main(shlex.split(story)) == 0, story
    told = capfd.readouterr().out
    assert set(ERROR.findall(title)) <= set(ERROR.findall(told))


def asked(title: str, bootstrap: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit status and output of the one question that a section asks of a cluster."""
    (question,) = ASKED.findall(SECTIONS[title])
    assert ADDRESS in question
    capfd.readouterr()
    status = main(shlex.split(question.replace(ADDRESS, bootstrap)))
    return status, capfd.readouterr().out


STAND_STILL: Final = "Readers stand still, and the last stable offset does not move"
FENCED: Final = "PRODUCER_FENCED"
GROWS: Final = "`__transaction_state` grows"


@pytest.mark.slow
def test_why_names_what_hangs_and_the_command_that_ends_it(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with TxnsimServer(practise=True, arguments=("--http", "0")) as server:
        _, told = asked(STAND_STILL, server.bootstrap, capfd)
        assert "transactional id billing" in told
        assert "It hangs." in told
        (ends,) = re.findall(r"To end it: txnsim (txns .+?)\.$", told, re.MULTILINE)
        assert main(shlex.split(ends)) == 0
        _, told = asked(STAND_STILL, server.bootstrap, capfd)
        assert "hangs" not in told


@pytest.mark.slow
def test_describe_and_list_show_a_newer_instance_and_random_ids(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with TxnsimServer(arguments=("--topic", "orders")) as server:
        older, newer = asyncio.run(two_instances(server.bootstrap))
        status, told = asked(FENCED, server.bootstrap, capfd)
        assert status == 0
        names, values = (line.split() for line in told.splitlines())
        has = dict(zip(names, values, strict=False))
        assert int(has["ProducerEpoch"]) == newer.producer_epoch > older.producer_epoch
        assert has["TransactionState"] == "Ongoing"
        assert int(has["CurrentTransactionStartTimeMs"]) > 0
        status, told = asked(GROWS, server.bootstrap, capfd)
        assert status == 0
        assert {line.split()[0] for line in told.splitlines()[1:]} == {"shop", "6f1c", "b2e9"}


async def two_instances(bootstrap: str) -> tuple[ProducerIdAndEpoch, ProducerIdAndEpoch]:
    """The second one fences the first, and has a transaction open. Another application takes a
    random id with each start.
    """
    async with Cluster(bootstrap) as client:
        for name in ("6f1c", "b2e9"):
            await Producer(client, transactional_id=name).init_transactions()
        first, second = (Producer(client, transactional_id="shop") for _ in range(2))
        older = await first.init_transactions()
        first.begin()
        newer = await second.init_transactions()
        second.begin()
        await second.send("orders", 0, b"x")
        with pytest.raises(ClientError):
            await first.send("orders", 0, b"y")
        return older, newer


def test_each_question_to_a_cluster_is_played() -> None:
    asking = [title for title, text in SECTIONS.items() for _ in ASKED.findall(text)]
    assert asking == [STAND_STILL, FENCED, GROWS]


def test_it_says_what_to_do() -> None:
    assert [title for title, text in SECTIONS.items() if text.count("**Do:**") != 1] == []


def test_each_error_that_contributors_look_up_is_there() -> None:
    symptoms = (ROOT / "docs/contributing/where.md").read_text("utf-8").split("### Two defences")[0]
    looked_up = {
        name
        for row in re.findall(r"^\| ([^|]+) \|", symptoms, re.MULTILINE)
        for name in ERROR.findall(row)
    }
    assert len(looked_up) > 10
    assert looked_up <= set(ERROR.findall("\n".join(SECTIONS)))


def test_each_story_of_an_error_is_told_there() -> None:
    files = {path.stem for path in (catalog.directory() / catalog.ERRORS).glob("*.yaml")}
    assert files <= set(re.findall(r"scenario run ([\w-]+)", PAGE))
