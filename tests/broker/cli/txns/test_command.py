"""``txnsim txns`` against a scripted broker: tables, words and statuses of Kafka's
TransactionsCommand, and our advice.
"""

from __future__ import annotations

import asyncio
import functools
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from signal import SIGINT, default_int_handler, raise_signal, signal
from typing import Any, Final

import pytest

from tests.broker.client.fake_broker import (
    CLOSE,
    FakeBroker,
    Handler,
    ReceivedRequest,
    init_answer,
    producers_of,
)
from txnsim.cli._txns.command import command_from
from txnsim.cli.main import INTERRUPTED_STATUS, main, parser_of
from txnsim.client.versions import ClientApi
from txnsim.wire.filters import TransactionFilters

HINT = "Enable debug logging for additional detail."


class BackgroundBroker:
    """A scripted broker in a thread of its own, because the command runs a loop of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.broker = FakeBroker(
            {
                ClientApi.LIST_TRANSACTIONS: transaction_listing(),
                ClientApi.DESCRIBE_TRANSACTIONS: transaction_description(),
                ClientApi.DESCRIBE_PRODUCERS: producers(),
                ClientApi.WRITE_TXN_MARKERS: marker_answer(),
                ClientApi.INIT_PRODUCER_ID: init_answer(),
            }
        )
        self.wait(self.broker.__aenter__())

    def wait(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def close(self) -> None:
        self.wait(self.broker.__aexit__(None, None, None))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    background = BackgroundBroker()
    yield background.broker
    background.close()


def transaction_listing(error: int = 0) -> Handler:
    return lambda request: request.answer(
        error_code=error,
        transaction_states=(
            {"transactional_id": "pay", "producer_id": 7, "transaction_state": "Ongoing"},
            {"transactional_id": "x", "producer_id": 8, "transaction_state": "New"},
        ),
    )


def transaction_description(
    error: int = 0, *, start_ms: int | None = 5, has_topics: bool = True
) -> Handler:
    def handle(request: ReceivedRequest) -> Any:
        data = ({"topic": "t", "partitions": (0, 1)},) if has_topics else ()
        return request.answer(
            transaction_states=[
                {
                    "error_code": error,
                    "transactional_id": key,
                    "transaction_state": "Ongoing",
                    "transaction_timeout": 60_000,
                    "transaction_start_time": start_ms,
                    "producer_id": 7,
                    "producer_epoch": 3,
                    "topics": data,
                }
                for key in request.message.transactional_ids
            ]
        )

    return handle


def producers(error: int = 0, *, start: int = 4, coordinator_epoch: int = -1) -> Handler:
    def handle(request: ReceivedRequest) -> Any:
        state = {
            "producer_id": 7,
            "producer_epoch": 3,
            "last_sequence": 2,
            "last_timestamp": 60_000,
            "coordinator_epoch": coordinator_epoch,
            "current_txn_start_offset": start,
        }
        return producers_of(request, *(() if error else (state,)), error=error)

    return handle


def marker_answer(error: int = 0) -> Handler:
    return lambda request: request.answer(
        markers=[
            {
                "producer_id": marker.producer_id,
                "topics": [
                    {
                        "name": topic.name,
                        "partitions": [
                            {"partition_index": partition_index, "error_code": error}
                            for partition_index in topic.partition_indexes
                        ],
                    }
                    for topic in marker.topics
                ],
            }
            for marker in request.message.markers
        ]
    )


Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in a folder of its own, because an abort writes a file there."""
    monkeypatch.chdir(tmp_path)


def run(broker: FakeBroker, *args: str) -> int:
    return main(["txns", "--bootstrap-server", broker.address, *args])


T0 = ("--topic", "t", "--partition", "0")


def test_list(broker: FakeBroker, capsys: Captured) -> None:
    assert run(broker, "list") == 0
    assert capsys.readouterr().out == (
        "TransactionalId\tCoordinator\tProducerId\tTransactionState\t\n"
        "pay            \t1          \t7         \tOngoing         \t\n"
        "x              \t1          \t8         \tUnknown         \t\n"
    )
    (request,) = broker.of(ClientApi.LIST_TRANSACTIONS)
    assert (request.message.duration_filter, request.message.transactional_id_pattern) == (-1, None)


OPTIONS: Final = {name: row for name, row in TransactionFilters.NAMES.items() if row.option}
NUMBERS: Final = [n for n in OPTIONS if isinstance(getattr(TransactionFilters(), n), int)]


def test_list_sends_its_filters(broker: FakeBroker) -> None:
    """The filters are those of the newest release; a number stays a number."""
    run(broker, "list", *(argument for row in OPTIONS.values() for argument in (row.option, "9")))
    (request,) = broker.of(ClientApi.LIST_TRANSACTIONS)
    sent_filters = {name: getattr(request.message, row.field) for name, row in OPTIONS.items()}
    assert sent_filters == {name: 9 if name in NUMBERS else "9" for name in OPTIONS}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_filter_that_the_broker_cannot_read_is_not_dropped(
    broker: FakeBroker, capsys: Captured, name: str
) -> None:
    row = OPTIONS[name]
    broker.ranges[ClientApi.LIST_TRANSACTIONS] = (0, row.since - 1)
    assert run(broker, "list", row.option, "9") == 1
    error_output = capsys.readouterr().err
    assert row.refusal in error_output
    assert f"version {row.since} or higher" in error_output
    assert "too old" in error_output
    assert broker.of(ClientApi.LIST_TRANSACTIONS) == []


@pytest.mark.parametrize("name", NUMBERS)
def test_a_filter_takes_no_number_that_its_field_can_not_hold(capsys: Captured, name: str) -> None:
    row = OPTIONS[name]
    number = str(1 << row.bits - 1)
    assert main(["txns", "--bootstrap-server", "127.0.0.1:1", "list", row.option, number]) == 2
    assert f"{number} does not fit in {row.bits} bits" in capsys.readouterr().err


def test_a_limit_of_ours_is_not_called_the_brokers(broker: FakeBroker, capsys: Captured) -> None:
    highest = ClientApi.LIST_TRANSACTIONS.own_range.highest
    broker.ranges[ClientApi.LIST_TRANSACTIONS] = (highest + 1, highest + 2)
    assert run(broker, "list") == 1
    error_output = capsys.readouterr().err
    assert f"This client speaks LIST_TRANSACTIONS up to version {highest}" in error_output
    assert "a limit of this txnsim, not of the broker" in error_output
    assert "too old" not in error_output


def test_describe(broker: FakeBroker, capsys: Captured) -> None:
    assert run(broker, "describe", "--transactional-id", "pay") == 0
    header, row, _ = capsys.readouterr().out.split("\n")
    cells = dict(
        zip(
            (c.strip() for c in header.split("\t")),
            (c.strip() for c in row.split("\t")),
            strict=True,
        )
    )
    assert int(cells.pop("TransactionDurationMs")) > 1_000_000
    assert cells == {
        "CoordinatorId": "1",
        "TransactionalId": "pay",
        "ProducerId": "7",
        "ProducerEpoch": "3",
        "TransactionState": "Ongoing",
        "TransactionTimeoutMs": "60000",
        "CurrentTransactionStartTimeMs": "5",
        "TopicPartitions": "t-0,t-1",
        "": "",
    }


def test_describe_without_a_start(broker: FakeBroker, capsys: Captured) -> None:
    broker.handlers[ClientApi.DESCRIBE_TRANSACTIONS] = transaction_description(
        start_ms=None, has_topics=False
    )
    assert run(broker, "describe", "--transactional-id", "pay") == 0
    assert capsys.readouterr().out.split("\n")[1].count("None") == 2


def test_describe_producers(broker: FakeBroker, capsys: Captured) -> None:
    assert run(broker, "describe-producers", *T0) == 0
    row = capsys.readouterr().out.split("\n")[1]
    assert [cell_text.strip() for cell_text in row.split("\t")] == [
        "7",
        "3",
        "-1",
        "2",
        "60000",
        "4",
        "",
    ]
    broker.handlers[ClientApi.DESCRIBE_PRODUCERS] = producers(start=-1, coordinator_epoch=5)
    assert run(broker, "describe-producers", *T0, "--broker-id", "1") == 0
    row = capsys.readouterr().out.split("\n")[1]
    assert [cell_text.strip() for cell_text in row.split("\t")] == [
        "7",
        "3",
        "5",
        "2",
        "60000",
        "None",
        "",
    ]


def test_find_hanging(broker: FakeBroker, capsys: Captured) -> None:
    for scope in (T0, ("--topic", "t"), ("--broker-id", "1")):
        assert run(broker, "find-hanging", *scope) == 0
        # The described transaction has the partitions: nothing hangs.
        assert len(capsys.readouterr().out.splitlines()) == 1
    broker.handlers[ClientApi.DESCRIBE_TRANSACTIONS] = transaction_description(has_topics=False)
    assert run(broker, "find-hanging", "--topic", "t", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["partition"]["partition"] for row in rows] == [0, 1]
    assert rows[0]["producer"]["txn_start_offset"] == 4
    broker.handlers[ClientApi.DESCRIBE_TRANSACTIONS] = transaction_description(105)
    assert run(broker, "find-hanging", *T0) == 0
    row = capsys.readouterr().out.split("\n")[1]
    cells = [cell_text.strip() for cell_text in row.split("\t")]
    assert cells[:7] == ["t", "0", "7", "3", "-1", "4", "60000"]


def test_abort_by_start_offset_names_what_the_leader_says(broker: FakeBroker) -> None:
    assert run(broker, "abort", *T0, "--start-offset", "4", "--producer-id", "99") == 0
    ((marker,),) = [request.message.markers for request in broker.of(ClientApi.WRITE_TXN_MARKERS)]
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 0)
    assert marker.transaction_result is False
    assert marker.transaction_version == 0


def test_abort_by_identity_names_what_it_is_told(broker: FakeBroker, capsys: Captured) -> None:
    identity = ("--producer-id", "9", "--producer-epoch", "2", "--coordinator-epoch", "-1")
    assert run(broker, "abort", *T0, *identity) == 0
    assert capsys.readouterr() == ("", "")
    ((marker,),) = [request.message.markers for request in broker.of(ClientApi.WRITE_TXN_MARKERS)]
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (9, 2, 0)


def test_force_terminate_fences_by_init_producer_id(broker: FakeBroker, capsys: Captured) -> None:
    assert run(broker, "forceTerminateTransaction", "--transactionalId", "pay") == 0
    assert "was open and is aborted: that discards its records" in capsys.readouterr().err
    (request,) = broker.of(ClientApi.INIT_PRODUCER_ID)
    assert (request.message.transactional_id, request.message.producer_id) == ("pay", -1)


SPEC = "AbortTransactionSpec(topicPartition=t-0, producerId=7, producerEpoch=3, coordinatorEpoch=0)"


@pytest.mark.parametrize(
    ("handlers", "args", "first_line", "second_line"),
    [
        (
            {ClientApi.LIST_TRANSACTIONS: transaction_listing(128)},
            ("list",),
            "Failed to list transactions: ListTransactions request sent to broker 1 failed with an"
            f" unexpected exception. {HINT}",
            "The broker answered INVALID_REGULAR_EXPRESSION (128).",
        ),
        (
            {ClientApi.LIST_TRANSACTIONS: transaction_listing(15)},
            ("list",),
            "Failed to list transactions: ListTransactions request sent to broker 1 failed because"
            f" the coordinator is shutting down. {HINT}",
            "The broker answered COORDINATOR_NOT_AVAILABLE (15).",
        ),
        (
            {ClientApi.DESCRIBE_TRANSACTIONS: transaction_description(105)},
            ("describe", "--transactional-id", "a"),
            "Failed to describe transaction state of transactional-id `a`: DescribeTransactions"
            f" request for transactionalId `a` failed because the ID could not be found. {HINT}",
            "The broker answered TRANSACTIONAL_ID_NOT_FOUND (105).",
        ),
        (
            {ClientApi.DESCRIBE_PRODUCERS: producers(6)},
            ("describe-producers", *T0, "--broker-id", "1"),
            "Failed to describe producers for partition t-0 on broker 1: Failed to describe active"
            f" producers for partition t-0 on brokerId 1. {HINT}",
            "The broker answered NOT_LEADER_OR_FOLLOWER (6).",
        ),
        (
            {ClientApi.DESCRIBE_PRODUCERS: producers(29)},
            ("find-hanging", *T0),
            "Failed to describe producers for 1 partitions on broker Optional.empty: Failed to"
            " describe active producers for partition t-0 due to authorization failure on topic"
            f" `t`. {HINT}",
            "The broker answered TOPIC_AUTHORIZATION_FAILED (29). The user lacks a right: READ on"
            " the topic.",
        ),
        (
            {ClientApi.WRITE_TXN_MARKERS: marker_answer(52)},
            ("abort", *T0, "--start-offset", "4"),
            f"Failed to abort transaction {SPEC}: WriteTxnMarkers request with {SPEC} failed since"
            " the provided coordinator epoch 0 has been fenced by the active coordinator. " + HINT,
            "The broker answered TRANSACTION_COORDINATOR_FENCED (52).",
        ),
        (
            {ClientApi.WRITE_TXN_MARKERS: marker_answer(47)},
            ("abort", *T0, "--start-offset", "4"),
            f"Failed to abort transaction {SPEC}: WriteTxnMarkers request with {SPEC} failed due an"
            f" invalid producer epoch. {HINT}",
            "The broker answered INVALID_PRODUCER_EPOCH (47).",
        ),
        (
            {ClientApi.INIT_PRODUCER_ID: init_answer(53)},
            ("forceTerminateTransaction", "--transactionalId", "a"),
            "Failed to force terminate transactionalId `a`: InitProducerId request for"
            f" transactionalId `a` failed due to transactional ID authorization failure. {HINT}",
            "The broker answered TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53). The user lacks a"
            " right: WRITE on the transactional id.",
        ),
        (
            {},
            ("describe-producers", "--topic", "t", "--partition", "9"),
            "Failed to describe producers for partition t-9 on leader: This server does not host"
            f" this topic-partition.. {HINT}",
            "The broker answered UNKNOWN_TOPIC_OR_PARTITION (3).",
        ),
        (
            {},
            ("find-hanging", "--topic", "nope"),
            f"Failed to describe 1 topics: This server does not host this topic-partition.. {HINT}",
            "The broker answered UNKNOWN_TOPIC_OR_PARTITION (3).",
        ),
    ],
)
def test_failures_have_kafkas_words_and_then_the_error_code(
    broker: FakeBroker,
    capsys: Captured,
    handlers: dict[int, Handler],
    args: tuple[str, ...],
    first_line: str,
    second_line: str,
) -> None:
    broker.handlers.update(handlers)
    assert run(broker, *args) == 1
    output, error_output = capsys.readouterr()
    assert output == ""
    assert error_output.splitlines() == [first_line, second_line]


def test_an_unknown_broker_is_named_with_the_known_ones(
    broker: FakeBroker, capsys: Captured
) -> None:
    assert run(broker, "describe-producers", *T0, "--broker-id", "9") == 1
    assert "broker 9 is not in the cluster, whose brokers are 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("abort", *T0), "The transaction to abort must be identified either with --start-offset"),
        (("abort", *T0, "--producer-id", "1"), "Missing required argument --producer-epoch"),
        (
            ("abort", *T0, "--producer-id", "1", "--producer-epoch", "1"),
            "Missing required argument --coordinator-epoch",
        ),
        (("find-hanging",), "The `find-hanging` command requires either --topic or --broker-id"),
        (
            ("find-hanging", "--broker-id", "1", "--partition", "1"),
            "The --partition argument requires --topic to be provided",
        ),
    ],
)
def test_what_kafkas_tool_refuses_has_its_words_and_the_status_of_misuse(
    capsys: Captured, args: tuple[str, ...], message: str
) -> None:
    assert main(["txns", "--bootstrap-server", "127.0.0.1:1", *args]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("abort", *T0, "--producer-epoch", "40000"), "40000 does not fit in 16 bits"),
        (("list", "--duration-filter", "x"), "--duration-filter: expected a whole number"),
        (("describe",), "--transactional-id is missing"),
        (("why", "orders"), "orders: which partition? expected TOPIC-PARTITION, as orders-0"),
        (("why", "-1"), "-1: which partition?"),
    ],
)
def test_misuse_is_refused_before_anything_is_sent(
    capsys: Captured, args: tuple[str, ...], message: str
) -> None:
    assert main(["txns", "--bootstrap-server", "127.0.0.1:1", *args]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("bootstrap", "status", "expected_words"),
    [
        (
            "127.0.0.1:1",
            1,
            ("can't connect to 127.0.0.1:1: Connection refused", "No broker listens"),
        ),
        ("nonsense", 2, ("bootstrap server 'nonsense': host:port is expected",)),
    ],
)
def test_a_wrong_address_is_told_in_one_or_two_lines(
    capsys: Captured, bootstrap: str, status: int, expected_words: tuple[str, ...]
) -> None:
    assert main(["txns", "list", "--bootstrap-server", bootstrap]) == status
    error_output = capsys.readouterr().err
    assert all(word in error_output for word in expected_words)
    assert "Traceback" not in error_output


def test_a_listener_that_hangs_up_gets_advice(broker: FakeBroker, capsys: Captured) -> None:
    broker.handlers[ClientApi.API_VERSIONS] = lambda _: CLOSE
    assert run(broker, "list") == 1
    assert "TLS or SASL" in capsys.readouterr().err


def test_the_address_may_come_from_the_configuration_file(
    broker: FakeBroker, capsys: Captured, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={broker.address}\nunused=1\n")
    assert main(["txns", "list", "--command-config", str(file)]) == 0
    output, error_output = capsys.readouterr()
    assert "pay" in output
    assert "without effect here: unused" in error_output


def test_a_listing_waits_for_a_broker_that_is_loading(broker: FakeBroker) -> None:
    answers = [transaction_listing(14), transaction_listing()]
    broker.handlers[ClientApi.LIST_TRANSACTIONS] = lambda request: answers.pop(0)(request)
    assert run(broker, "list") == 0
    assert len(broker.of(ClientApi.LIST_TRANSACTIONS)) == 2


def test_an_abort_follows_the_leader(broker: FakeBroker) -> None:
    answers = [marker_answer(6), marker_answer()]
    broker.handlers[ClientApi.WRITE_TXN_MARKERS] = lambda request: answers.pop(0)(request)
    assert run(broker, "abort", *T0, "--start-offset", "4") == 0
    assert len(broker.of(ClientApi.WRITE_TXN_MARKERS)) == 2


def test_leaderless_partitions_are_waited_for(broker: FakeBroker) -> None:
    calls = [functools.partial(broker.metadata, leader_id=-1), broker.metadata]
    metadata: list[Any] = [broker.metadata, broker.metadata, *calls]
    broker.handlers[ClientApi.METADATA] = lambda request: (
        metadata.pop(0) if len(metadata) > 1 else metadata[0]
    )(request)
    assert run(broker, "describe-producers", *T0) == 0


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C interrupts, also where this was started in the background of a shell, which ignores
    it.
    """
    previous_handler = signal(SIGINT, default_int_handler)
    yield
    signal(SIGINT, previous_handler)


@pytest.mark.usefixtures("interruptible")
def test_a_watch_outlives_what_fails_for_a_while(broker: FakeBroker, capsys: Captured) -> None:
    round_count = 0

    def find(request: ReceivedRequest) -> Any:
        nonlocal round_count
        round_count += 1
        if round_count == 3:
            raise_signal(SIGINT)
        return (producers(29) if round_count == 1 else producers())(request)

    broker.handlers[ClientApi.DESCRIBE_PRODUCERS] = find
    arguments = ("find-hanging", *T0, "--max-transaction-timeout", "1", "--watch", "0.01")
    assert run(broker, *arguments) == INTERRUPTED_STATUS
    output, error_output = capsys.readouterr()
    assert "authorization failure" in error_output
    assert error_output.count("Z\n") >= 2
    assert output.startswith("Topic")


@pytest.mark.usefixtures("interruptible")
def test_a_watch_prints_a_line_of_json_each_time(broker: FakeBroker, capsys: Captured) -> None:
    round_count = 0

    def find(request: ReceivedRequest) -> Any:
        nonlocal round_count
        round_count += 1
        if round_count == 4:
            raise_signal(SIGINT)
        return producers()(request)

    broker.handlers[ClientApi.DESCRIBE_PRODUCERS] = find
    arguments = ("find-hanging", *T0, "--max-transaction-timeout", "1", "--watch", "0.01", "--json")
    assert run(broker, *arguments) == INTERRUPTED_STATUS
    printed_lines = capsys.readouterr().out.splitlines()
    assert len(printed_lines) >= 2
    assert all(isinstance(json.loads(line), list | dict) for line in printed_lines)


def test_a_variable_says_where_for_all_commands(
    broker: FakeBroker, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TXNSIM_BOOTSTRAP", broker.address)
    assert main(["txns", "list"]) == 0
    assert "pay" in capsys.readouterr().out
    assert main(["txns", "list", "--bootstrap-server", "127.0.0.1:1"]) == 1


def test_a_partition_is_taken_as_it_is_printed() -> None:
    commands = [
        command_from(parser_of("txns").parse_args(["txns", "why", *arguments]), "again")
        for arguments in (("my-orders", "3"), ("my-orders-3",))
    ]
    assert commands[0] == commands[1]
