"""docs/troubleshooting.md: each section has a story that shows it, which comes to what it declares
and tells the errors of the heading. What it asks of a cluster is answered as it says. What clients
show ("Also seen as") is what was found in their releases.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from typing import Final

import pytest

from tests.clients import client_messages
from tests.docs import ROOT
from tests.support.txnsim_server import TxnsimServer
from txnsim.cli.main import main
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer
from txnsim.errors import ErrorCode
from txnsim.types import ProducerIdAndEpoch
from txnsim_lab.scenario import catalog
from txnsim_lab.troubleshooting import find_sections, read_sections

PAGE: Final = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
SECTIONS: Final = dict(page_text.split("\n", 1) for page_text in PAGE.split("\n## ")[1:])
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
    output = capfd.readouterr().out
    assert set(ERROR.findall(title)) <= set(ERROR.findall(output))


def explain_symptom(
    title: str, bootstrap: str, capfd: pytest.CaptureFixture[str]
) -> tuple[int, str]:
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
    with TxnsimServer(is_practice=True, arguments=("--http", "0")) as server:
        _, output = explain_symptom(STAND_STILL, server.bootstrap, capfd)
        assert "transactional id billing" in output
        assert "It hangs." in output
        (ends,) = re.findall(r"To end it: txnsim (txns .+)$", output, re.MULTILINE)
        assert main(shlex.split(ends)) == 0
        _, output = explain_symptom(STAND_STILL, server.bootstrap, capfd)
        assert "hangs" not in output


@pytest.mark.slow
def test_describe_and_list_show_a_newer_instance_and_random_ids(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with TxnsimServer(arguments=("--topic", "orders")) as server:
        older_identity, newer_identity = asyncio.run(two_instances(server.bootstrap))
        status, output = explain_symptom(FENCED, server.bootstrap, capfd)
        assert status == 0
        names, values = (printed_line.split() for printed_line in output.splitlines())
        has = dict(zip(names, values, strict=False))
        assert (
            int(has["ProducerEpoch"])
            == newer_identity.producer_epoch
            > older_identity.producer_epoch
        )
        assert has["TransactionState"] == "Ongoing"
        assert int(has["CurrentTransactionStartTimeMs"]) > 0
        status, output = explain_symptom(GROWS, server.bootstrap, capfd)
        assert status == 0
        assert {printed_line.split()[0] for printed_line in output.splitlines()[1:]} == {
            "shop",
            "6f1c",
            "b2e9",
        }


async def two_instances(bootstrap: str) -> tuple[ProducerIdAndEpoch, ProducerIdAndEpoch]:
    """The second one fences the first, and has a transaction open. Another application takes a
    random id with each start.
    """
    async with Cluster(bootstrap) as client:
        for transactional_id in ("6f1c", "b2e9"):
            await Producer(client, transactional_id=transactional_id).init_transactions()
        first_producer, second_producer = (
            Producer(client, transactional_id="shop") for _ in range(2)
        )
        older_identity = await first_producer.init_transactions()
        first_producer.begin()
        newer_identity = await second_producer.init_transactions()
        second_producer.begin()
        await second_producer.send("orders", 0, b"x")
        with pytest.raises(ClientError):
            await first_producer.send("orders", 0, b"y")
        return older_identity, newer_identity


def test_each_question_to_a_cluster_is_played() -> None:
    asking = [
        title for title, section_text in SECTIONS.items() for _ in ASKED.findall(section_text)
    ]
    assert asking == [STAND_STILL, FENCED, GROWS]


def test_it_says_what_to_do() -> None:
    assert [
        title for title, section_text in SECTIONS.items() if section_text.count("**Do:**") != 1
    ] == []


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
    files = {path.stem for path in (catalog.directory() / catalog.ERRORS_FOLDER).glob("*.yaml")}
    assert files <= set(re.findall(r"scenario run ([\w-]+)", PAGE))


# What clients show


WITHOUT_MESSAGE: Final = {
    STAND_STILL,
    "The lag of a transactional topic stays at 1",
    "Aborted records are seen",
    "A position of a group went back",
    "Consumers after a transaction.version upgrade",
    "Kafka and a database at once",
    GROWS,
    "A compacted topic grows",
    "A share group gets nothing",
}
"""Symptoms of which no client says anything."""


def test_each_section_says_what_clients_show() -> None:
    silent_sections = {section.title for section in read_sections(PAGE) if not section.seen_as}
    assert silent_sections == WITHOUT_MESSAGE


def test_what_clients_show_was_found_in_their_releases() -> None:
    """The table's rows are the page's words, no more and no fewer; each is of a release that the
    nightly test looks into.
    """
    stored_rows = client_messages.stored_rows()
    assert sorted((row.client, row.words) for row in stored_rows) == client_messages.quoted_words()
    releases = {
        (client, release.package, release.version)
        for client, release in client_messages.RELEASES.items()
    }
    assert {(row.client, row.package, row.version) for row in stored_rows} == releases


@pytest.mark.real
def test_the_releases_still_say_it() -> None:
    """Fetches each release by the program of its registry: Maven, pip, Go and npm."""
    assert client_messages.main([]) == 0


TRANSITION: Final = "Cannot transition, invalid transition"
INSTANCE: Final = "FENCED_INSTANCE_ID"
INIT_TIMES_OUT: Final = "initTransactions times out: COORDINATOR_NOT_AVAILABLE"
ABORTED: Final = "A transaction is aborted, and no client aborted it"
NETWORK: Final = "NETWORK_EXCEPTION in a transaction"
TIMED_OUT: Final = "A commit timed out: retry or abort?"
REBALANCES: Final = "A group rebalances, a poll comes too late"
RIGHTS: Final = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED and other missing rights"
AS_PEOPLE_HAVE_THEM: Final = {
    "org.apache.kafka.common.errors.ProducerFencedException: There is a newer producer with"
    " the same transactionalId which fences the current one.": FENCED,
    "org.apache.kafka.common.errors.InvalidProducerEpochException: Producer attempted to"
    " produce with an old epoch.": "INVALID_PRODUCER_EPOCH",
    "org.apache.kafka.common.errors.TimeoutException: Timeout expired after 60000ms while"
    " awaiting InitProducerId": INIT_TIMES_OUT,
    "Timeout expired while initializing transactional state in 60000ms.": INIT_TIMES_OUT,
    "org.apache.kafka.common.KafkaException: TransactionalId shop-0: Invalid transition"
    " attempted from state IN_TRANSACTION to state IN_TRANSACTION": TRANSITION,
    'KafkaError{code=_FENCED,val=-144,str="Local: This instance has been fenced by a newer'
    ' instance"}': FENCED,
    "%0|1700000000.123|TXNERR|rdkafka#producer-1| Fatal transaction error: Failed to acquire"
    " transactional PID from broker localhost:9092/1: Broker: Producer attempted an"
    " operation with an old epoch": "INVALID_PRODUCER_EPOCH",
    "INVALID_PRODUCER_ID_MAPPING: The producer attempted to use a producer id which is not"
    " currently assigned to its transactional id.": "INVALID_PRODUCER_ID_MAPPING",
    "kafka server: The producer attempted to update a transaction while another concurrent"
    " operation on the same transaction was ongoing": "CONCURRENT_TRANSACTIONS",
    "aiokafka.errors.ProducerFenced: ProducerFenced: There is a newer producer using the"
    " same transactional_id ortransaction timeout occurred": FENCED,
    "KafkaJSProtocolError: The broker rejected this static consumer since another consumer"
    " with the same group instance id has registered with a different member id": INSTANCE,
    "kafka.errors.StaleMemberEpochError: [Error 113] StaleMemberEpochError": "STALE_MEMBER_EPOCH",
    "aiokafka.errors.StaleLeaderEpochCodeError: [Error 13] StaleLeaderEpochCodeError": NETWORK,
    "Current transaction failed: Transactional API operation (commit_transaction (begin)) timed"
    " out (_TIMED_OUT)": TIMED_OUT,
    "%3|TXNERR| Failed to flush all outstanding messages within the API timeout: 3 message(s)"
    " remaining": TIMED_OUT,
    "Unable to commit recovered transaction (x) because it's in an invalid state. Most likely the"
    " transaction has been aborted for some reason.": ABORTED,
    "Unable to commit recovered transaction (x) because its producer is already fenced.": FENCED,
    "19:43:48.188553228 [Error ] [TXNERR] [thrd:main]: Current transaction failed: Transactional"
    " operation timed out (_TIMED_OUT)": TIMED_OUT,
    "Failed to acquire transactional PID from broker TxnCoordinator/1: Broker: Coordinator load in"
    " progress: retrying": "COORDINATOR_LOAD_IN_PROGRESS",
    "org.apache.kafka.common.errors.TimeoutException: Timeout expired after 60000ms while awaiting"
    " AddOffsetsToTxn": TIMED_OUT,
    "aiokafka.errors.CommitFailedError: CommitFailedError: ('Commit cannot be completed since the"
    " group has already rebalanced')": "ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID",
    "Heartbeat failed for group billing because it is rebalancing": REBALANCES,
    "Heartbeat session expired - marking coordinator dead": REBALANCES,
    "Application maximum poll interval (300000ms) exceeded by 123ms (adjust max.poll.interval.ms"
    " for long-running message processing): leaving group": REBALANCES,
    "max.poll.interval": REBALANCES,
    "Cannot perform send because at least one previous transactional or idempotent request has"
    " failed with errors.": TRANSITION,
    "Failed to initialize Producer ID: Local: Timed out": INIT_TIMES_OUT,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": RIGHTS,
    "GROUP_AUTHORIZATION_FAILED": RIGHTS,
    "Broker: Cluster authorization failed": RIGHTS,
    "Transaction KafkaTransactionState [transactionalId=x] has been open for 900000 ms. This is"
    " close to or even exceeding the transaction timeout of 900000 ms.": ABORTED,
}
"""Lines of libraries -> the section."""


@pytest.mark.parametrize("line", AS_PEOPLE_HAVE_THEM)
def test_an_error_in_the_words_of_a_client_is_found(line: str) -> None:
    """``txnsim explain`` finds it as well; the site's search has the page's words."""
    titles = [section.title for section in find_sections(line, read_sections(PAGE)).sections]
    assert titles[0] == AS_PEOPLE_HAVE_THEM[line]
    assert len(titles) <= 2


def test_each_section_of_an_error_has_its_number() -> None:
    """The number lets the site's search find the section by `code 90`."""
    for section in read_sections(PAGE):
        numbers = {
            f"`code {ErrorCode[name.lower()].value}`" for name in ERROR.findall(section.title)
        }
        assert numbers <= set(re.findall(r"`code \d+`", section.text.split("\n\n")[0])), (
            section.title
        )


def test_a_renamed_section_keeps_its_address() -> None:
    assert '<a id="invalid_txn_state-at-an-abort"></a>' in SECTIONS["INVALID_TXN_STATE"]


def test_stories_say_what_passes_and_why(capfd: pytest.CaptureFixture[str]) -> None:
    for story, expected_words in {
        "invalid-producer-id-mapping": "Eight days pass.",
        "coordinator-not-available": "There is one broker",
        "invalid-txn-state": "commit is answered INVALID_TXN_STATE",
    }.items():
        assert main(["scenario", "run", story, "--armed"]) == 0
        assert expected_words in capfd.readouterr().out
