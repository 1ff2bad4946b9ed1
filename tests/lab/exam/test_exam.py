"""The exam of client libraries, with drivers that answer as scripted."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import json
import os
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import pytest

from tests.support.waiting import until
from txnsim.cli.main import main
from txnsim.client.errors import RetriableError
from txnsim.client.inspection.topic_reading import Fate, read_topic
from txnsim.client.offsets import LATEST_TIMESTAMP
from txnsim.errors import ConfigError
from txnsim.log.answers import LogRead
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.types import BrokerId, IsolationLevel, TopicPartition
from txnsim.wire.compression import GZIP
from txnsim_lab.exam import run
from txnsim_lab.exam._application import Application, OldProtocolProducer, run_together
from txnsim_lab.exam._driver import Answer, Driver, LibraryError, NoAnswerError
from txnsim_lab.exam._ledger import Ledger, LedgerEntry, ReportedEnd
from txnsim_lab.exam._session import DriverSession, without_repeats
from txnsim_lab.exam.fixture_topics import (
    FIXTURE_TOPICS,
    LARGE_VALUE_BYTES,
    FixtureTopic,
    short_values,
    write_fixture,
)
from txnsim_lab.exam.results import (
    ExamRun,
    MissError,
    NotAskedError,
    Result,
    SituationOutcome,
    known_misses,
    page,
)
from txnsim_lab.exam.run import Exam, choose_situations, run_exam
from txnsim_lab.exam.situation import situation
from txnsim_lab.exam.situations import MOVE_COUNT, SINGLE_MOVE_SITUATIONS, SITUATIONS
from txnsim_lab.exam.targets import SimulatedTargets

# Drivers that know nothing sit the exam: whoever answers "ok" to everything must fail.


YES: Final = """
import json, sys
for line in sys.stdin:
    number = json.loads(line)["id"]
    print(json.dumps({"id": number, "ok": True, "contract": 1, "library": "yes"}), flush=True)
"""
"""Answers "ok" to everything."""
YES_WITH_ALL: Final = YES.replace(
    '"contract": 1',
    '"contract": 1, "offset": 0, "records": [], "positions": {"0": 0}, "ends": {"0": 0}',
)
"""Has every field that an answer may have, too."""
BARE: Final = YES.replace('"ok": True', '"ok": False, "error": {"name": "UNSUPPORTED_COMMAND"}')
KNOWS_ITS_NAME: Final = BARE.replace('"ok": False', '"ok": number == 1')
"""Its first command is ``describe``; it has no other."""


def driver(program: str) -> str:
    """The command that runs a driver's program."""
    return shlex.join([sys.executable, "-c", program])


def sit_exam(program: str, *only: str, levels: tuple[int, ...] = (2,)) -> ExamRun:
    """Run the exam with a driver's program."""
    return asyncio.run(
        run_exam(driver(program), choose_situations(SITUATIONS, only), levels=levels)
    )


def test_there_are_situations_of_every_kind_and_names_are_unique() -> None:
    names = [situation.name for situation in SITUATIONS]
    assert len(set(names)) == len(names)
    kinds = {situation.kind for situation in SITUATIONS}
    of_groups = {"groups", "share groups"}
    assert kinds == {"fenced", "end unknown", "middle", "readers", "liveness"} | of_groups


@pytest.mark.thorough  # each situation has a cluster of its own, and some wait for a dead broker
@pytest.mark.parametrize(
    ("kind", "transaction_version"),
    sorted({(situation.kind, level) for situation in SITUATIONS for level in situation.levels}),
)
@pytest.mark.parametrize("program", [YES, YES_WITH_ALL], ids=["ok alone", "ok with all fields"])
def test_a_driver_that_says_ok_to_everything_fails_every_class(
    program: str, kind: str, transaction_version: int
) -> None:
    run = sit_exam(program, kind, levels=(transaction_version,))
    names = [
        situation.name
        for situation in SITUATIONS
        if transaction_version in situation.levels and situation.kind == kind
    ]
    assert [result.situation for result in run.results] == names
    # It may tell no positions, as a library may; where nothing else is asked, that does not apply.
    assert [result.id for result in run.results if result.outcome is SituationOutcome.PASSED] == []
    assert run.count(SituationOutcome.MISSED) > 0


def test_a_driver_that_says_ok_is_caught_in_each_class() -> None:
    quick = ("fenced-by-newer", "commit-lost", "produce-answer-lost", "lag-is-zero",
             "pending-positions-consumer", "share-release", "endtxn-silent")  # fmt: skip
    run = sit_exam(YES, *quick)
    assert [result.outcome for result in run.results] == [SituationOutcome.MISSED] * len(quick)
    assert "but readers do not get" in run.results[1].because[0]
    report_text = page(run)
    assert 'id="commit-lost@2"' in report_text
    assert "What was done" in report_text


def test_no_verdict_knows_who_sits() -> None:
    """Only the answer to ``describe`` names the library; reports contain the answer."""
    exam_folder = Path(run.__file__).parent
    asks = re.compile(r"\.(library|language)\b|\bwho\.|describe\(\)")
    knows = {path.name for path in exam_folder.rglob("*.py") if asks.search(path.read_text())}
    assert knows == {"compare.py", "run.py", "misses.py", "results.py"}
    for plays in (Exam.play, Exam._play_situation, Exam._judge_outcome):
        assert not asks.search(inspect.getsource(plays))


def test_a_driver_that_can_do_nothing_is_not_blamed() -> None:
    run = sit_exam(KNOWS_ITS_NAME, "commit-lost")
    assert [result.outcome for result in run.results] == [SituationOutcome.DOES_NOT_APPLY]


def test_of_whom_nothing_can_be_asked_it_is_not_said_that_nothing_was_missed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ("--only", "commit-lost", "--transaction-version", "2")
    assert main(["exam", "run", "--driver", driver(KNOWS_ITS_NAME), *options]) == 2
    assert "nothing was asked" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        (YES.replace('"contract": 1', '"contract": 7'), "contract 7"),
        (BARE, "describe failed"),
        ("print('hello')", "no answer of the contract"),
        ("pass", "has ended"),
        ("raise ValueError('no such library')", "has ended\n.*\n  ValueError: no such library"),
    ],
)
def test_what_does_not_speak_the_contract_is_refused(program: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=re.compile(complaint, re.DOTALL)):
        sit_exam(program)


def test_a_program_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="no-such-program"):
        asyncio.run(run_exam("no-such-program", SITUATIONS, levels=(2,)))


def test_the_core_has_something_of_every_kind() -> None:
    core = choose_situations(SITUATIONS, is_core_only=True)
    assert {situation.kind for situation in core} == {situation.kind for situation in SITUATIONS}
    assert len(core) < len(SITUATIONS) / 2


def test_an_unknown_word_names_the_situations() -> None:
    with pytest.raises(ConfigError, match="commit-lost"):
        choose_situations(SITUATIONS, ["comit"])


def test_known_misses_have_remarks() -> None:
    assert known_misses(["# ours", "commit-late@1  # reported", ""]) == {"commit-late@1"}


def test_a_result_is_known_by_situation_and_level() -> None:
    result = Result(
        situation="a", kind="middle", level=1, asks="?", outcome=SituationOutcome.PASSED
    )
    assert result.id == "a@1"


async def test_what_a_driver_has_started_ends_with_it() -> None:
    """This holds also if the driver has ended and its child keeps the pipe open."""
    program = (
        "import subprocess, sys; print(subprocess.Popen("
        "[sys.executable, '-c', 'import time; time.sleep(600)']).pid, flush=True)"
    )
    driver = await Driver.start(f"{sys.executable} -c {shlex.quote(program)}")
    child_id = int(await driver._answer_stream.readline())
    await driver.end()
    await until(lambda: _has_ended(child_id), "the child has ended")


async def test_a_driver_that_hangs_ends_with_an_exam_that_is_killed() -> None:
    hanging_driver = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
    exam = (
        "import asyncio, sys\n"
        "from txnsim_lab.exam._driver import Driver\n"
        "async def begin():\n"
        "    driver = await Driver.start(sys.argv[1])\n"
        "    print((await driver._answer_stream.readline()).decode(), end='', flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(begin())"
    )
    command = f"{sys.executable} -c {shlex.quote(hanging_driver)}"
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", exam, command, stdout=pipe)
    assert process.stdout is not None
    driver_id = int(await process.stdout.readline())
    process.kill()
    await process.wait()
    await until(lambda: _has_ended(driver_id), "the driver has ended")


def _has_ended(process_id: int) -> bool:
    """Whether a process has ended, even if its parent has not waited for it yet."""
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "Z"
    return True


def test_a_driver_ends_though_a_child_of_its_holds_the_pipes(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The child has a session of its own, so that it goes on after the driver."""
    program = (
        "import subprocess, sys; print(subprocess.Popen("
        "[sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True).pid,"
        " flush=True)"
    )

    async def run_driver() -> int:
        driver = await Driver.start(f"{sys.executable} -c {shlex.quote(program)}")
        child_id = int(await driver._answer_stream.readline())
        await driver.end()
        return child_id

    child_id = asyncio.run(run_driver())
    try:
        gc.collect()
        assert capfd.readouterr().err == ""
    finally:
        os.kill(child_id, signal.SIGKILL)


async def test_a_driver_may_listen() -> None:
    async def answer_description(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        async for line in reader:
            load_number = json.loads(line)["id"]
            answer = {"id": load_number, "ok": True, "contract": 1, "library": "far away"}
            writer.write(json.dumps(answer).encode() + b"\n")
        writer.close()

    async with await asyncio.start_server(answer_description, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        driver = await Driver.start(f"tcp://127.0.0.1:{port}")
        assert (await driver.describe()).library == "far away"
        await driver.end()
    with pytest.raises(ConfigError, match="tcp://"):
        await Driver.start(f"tcp://127.0.0.1:{port}")


@pytest.mark.parametrize(
    "address", ["127.0.0.1:65536", "127.0.0.1:99999999", "127.0.0.1:-1", "127.0.0.1:0", "a..b:1"]
)
async def test_an_address_of_a_driver_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="expected tcp://HOST:PORT"):
        await Driver.start(f"tcp://{address}")


def test_where_one_of_two_things_fails_the_other_gives_no_further_command() -> None:
    async def played_together() -> int:
        begin_event = asyncio.Event()

        async def endless() -> None:
            begin_event.set()
            await asyncio.Event().wait()

        async def fails() -> None:
            await begin_event.wait()
            raise MissError("it fails")

        with pytest.raises(MissError, match="it fails"):
            await run_together(endless(), fails())
        return len(asyncio.all_tasks())

    assert asyncio.run(played_together()) == 1


@pytest.mark.parametrize("error", [TimeoutError("0 of 1 strikes"), RetriableError("EndTxn")])
def test_what_the_cluster_does_not_do_ends_no_sitting(error: Exception) -> None:
    async def play(_: Application) -> None:
        raise error

    broken_situation = situation("broken", "middle", "?")(play)
    [result] = asyncio.run(
        run_exam(driver(KNOWS_ITS_NAME), [broken_situation], levels=(2,))
    ).results
    assert result.outcome is SituationOutcome.DOES_NOT_APPLY
    assert str(error) in result.because[0]


# What a session with a library notes, and how it says what was missed.


TIMED_OUT = LibraryError(name="TIMED_OUT", message="too late", retriable=True)


class Fake(Driver):
    """A driver that gives the test's answers in order."""

    def __init__(self, *answers: Answer | LibraryError | None) -> None:
        self._loop_and_environment = list(answers)

    async def ask(self, verb: str, **_arguments: Any) -> Answer:
        answer = self._loop_and_environment.pop(0)
        if answer is None:
            raise NoAnswerError(f"{verb} hangs")
        if isinstance(answer, LibraryError):
            return Answer(id=1, ok=False, error=answer)
        return answer


async def test_every_command_is_a_step_with_its_answer() -> None:
    records = ((0, 3, "a-1"),)
    session = DriverSession(
        Fake(
            Answer(id=1, ok=True, offset=3), Answer(id=1, ok=True, records=records), TIMED_OUT, None
        )
    )
    await session.do("send", producer="p", value="a-1", wait=True, bootstrap="127.0.0.1:1")
    await session.do("poll", consumer="c")
    await session.do("send-offsets", offsets=[["input", 0, 3]])
    with pytest.raises(NoAnswerError):
        await session.do("commit", producer="p")
    assert session.steps == [
        "send producer=p value=a-1 wait=true: done, offset 3",
        "poll consumer=c: done, records a-1",
        "send-offsets offsets=input:0:3: TIMED_OUT (retriable) too late",
        "commit producer=p: no answer",
    ]
    assert session.errors == ["send-offsets: TIMED_OUT (retriable) too late"]


async def test_a_command_that_must_work_and_fails_is_a_miss() -> None:
    with pytest.raises(MissError, match="poll failed: TIMED_OUT"):
        await DriverSession(Fake(TIMED_OUT)).must("poll")
    with pytest.raises(MissError, match="poll failed without an error"):
        await DriverSession(Fake(Answer(id=1, ok=False))).must("poll")
    with pytest.raises(NotAskedError, match="no command poll"):
        await DriverSession(Fake(LibraryError(name="UNSUPPORTED_COMMAND"))).must("poll")


async def test_another_end_than_the_expected_one_is_told_with_the_librarys_errors() -> None:
    session = DriverSession(Fake(TIMED_OUT))
    entry = LedgerEntry(values=("a-1", "b-2"), reported_end=ReportedEnd.UNKNOWN)
    session.expect_end(entry, ReportedEnd.UNKNOWN)
    await session.do("commit")
    with pytest.raises(MissError) as error_info:
        session.expect_end(entry, ReportedEnd.COMMITTED)
    assert str(error_info.value) == (
        'the library says "unknown" of the transaction with a-1, b-2, and "committed" was expected;'
        " its errors: commit: TIMED_OUT (retriable) too late"
    )
    with pytest.raises(MissError, match="the reader gets: 1; expected: 2"):
        session.expect(1, 2, "the reader gets")


async def test_several_calls_have_a_time_together() -> None:
    session = DriverSession(Fake())
    with pytest.raises(MissError, match="closing takes longer than 0 s"):
        async with session.within(0, "closing"):
            await asyncio.Event().wait()


def test_the_same_step_again_and_again_is_one_line() -> None:
    assert list(without_repeats(["a", "b", "b", "b", "a"])) == ["a", "b (3 times)", "a"]


# The laws of the exam, each broken once.


def ledger(reported_end: ReportedEnd) -> Ledger:
    """A ledger of one transaction with two values and a position."""
    ledger_of_one = Ledger([])
    ledger_of_one.begin("a", "b", group="g", position=3).reported_end = reported_end
    return ledger_of_one


def misses(reported_end: ReportedEnd, committed: list[str], position: int) -> list[str]:
    return list(ledger(reported_end).misses(committed, {"g": position}))


@pytest.mark.parametrize(
    ("reported_end", "committed", "position"),
    [
        (ReportedEnd.COMMITTED, ["a", "b"], 3),
        (ReportedEnd.ABORTED, [], -1),
        (ReportedEnd.UNKNOWN, ["b", "a"], 3),
        (ReportedEnd.UNKNOWN, [], -1),
    ],
)
def test_what_agrees_is_no_miss(
    reported_end: ReportedEnd, committed: list[str], position: int
) -> None:
    assert misses(reported_end, committed, position) == []


@pytest.mark.parametrize(
    ("reported_end", "committed", "position", "expected_miss"),
    [
        (ReportedEnd.COMMITTED, ["a"], 3, 'the library says "committed", but readers do not get b'),
        (
            ReportedEnd.ABORTED,
            ["a", "b"],
            3,
            'the library says "aborted" or was never asked to commit, but readers get a, b',
        ),
        (ReportedEnd.UNKNOWN, ["a"], -1, "half of a transaction is committed: a without b"),
        (ReportedEnd.COMMITTED, ["a", "b", "b"], 3, "b is in the log 2 times"),
        (ReportedEnd.COMMITTED, ["a", "b", "c"], 3, "c is in the log, and was never sent"),
        (
            ReportedEnd.UNKNOWN,
            ["a", "b"],
            -1,
            "the position of group g is -1; by its transactions it has to be 3",
        ),
    ],
)
def test_a_broken_law_is_named(
    reported_end: ReportedEnd, committed: list[str], position: int, expected_miss: str
) -> None:
    assert misses(reported_end, committed, position) == [expected_miss]


def test_positions_are_those_of_the_last_transaction_that_counts() -> None:
    ledger_of_two = ledger(ReportedEnd.COMMITTED)
    ledger_of_two.begin("c", group="g", position=5).reported_end = ReportedEnd.ABORTED
    assert list(ledger_of_two.misses(["a", "b"], {"g": 3})) == []


# Targets of the exam: the simulated one does what situations ask of both.


async def test_a_leader_moves_and_a_broker_dies() -> None:
    async with SimulatedTargets().open(2) as open_target:
        application = Application(open_target, cast(Driver, None))
        admin, topic_partition = await open_target.target.admin(), TopicPartition("t", 1)
        leader_before = await admin.leader_of(topic_partition)
        await application.move_leader_of(topic_partition)
        leaders = open_target.kafka.leaders
        assert await leaders.of("t", 1) not in (leader_before, 1)
        await application.move_leader_of(topic_partition, to=1)
        assert await leaders.of("t", 1) == 1
        await application.kill(leader_before)
        assert (await open_target.kafka.brokers.states())[leader_before] == "down"


async def test_what_moves_may_move_there_and_back_and_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async with SimulatedTargets().open(2) as open_target:
        application = Application(open_target, cast(Driver, None))
        leader_before = await open_target.kafka.leaders.of("t", 1)
        move_leader, move_targets = open_target.target.move_leader, []

        async def noting(topic_partition: TopicPartition, to: int) -> None:
            move_targets.append(to)
            await move_leader(topic_partition, to)

        monkeypatch.setattr(open_target.target, "move_leader", noting)
        application.move_count = MOVE_COUNT
        await application.move_leader(1)
        moved_there, back, on = move_targets
        assert back == leader_before
        assert len({moved_there, back, on}) == 3


def test_each_situation_that_moves_once_has_a_neighbour() -> None:
    names = {situation.name: situation for situation in SITUATIONS}
    for name in SINGLE_MOVE_SITUATIONS:
        neighbouring_situation = names[f"{name}-there-back-and-on"]
        assert neighbouring_situation.levels == names[name].levels
        assert not neighbouring_situation.core


async def test_ids_and_groups_have_homes() -> None:
    async with SimulatedTargets().open(2) as open_target:
        topics, application = open_target.kafka.topics, Application(open_target, cast(Driver, None))
        home_partition = await open_target.target.home_of_id("shop")
        assert home_partition == await topics.of_transactional_id("shop")
        assert await application.home_of_group("g") == await topics.of_group("g")


async def test_one_broker_coordinates_a_group_and_leads_but_not_the_transaction() -> None:
    async with SimulatedTargets().open(2) as open_target:
        application = Application(open_target, cast(Driver, None))
        leaders, group_partition = open_target.kafka.leaders, await application.home_of_group("g")
        coordinator = await leaders.coordinator_of("shop")
        await application.move_leader_of(group_partition, to=coordinator)
        await application.with_leader("g", 0)
        assert await leaders.of("t", 0) == await leaders.of(
            group_partition.topic, group_partition.partition
        )
        assert await leaders.of("t", 0) != await leaders.coordinator_of("shop") == coordinator


async def test_what_only_a_simulator_can_do_is_not_asked_of_others() -> None:
    async with SimulatedTargets().open(2) as open_target:
        real_target = msgspec.structs.replace(open_target, simulator=None)
        with pytest.raises(NotAskedError, match="only a simulated cluster"):
            _ = Application(real_target, cast(Driver, None)).kafka
        assert await real_target.recording() == b""
        assert await open_target.recording()


async def test_a_situation_that_wants_another_release_is_not_asked() -> None:
    with pytest.raises(NotAskedError, match="begins as"):
        async with SimulatedTargets("4.0").open(2, begins_as="3.9"):
            pass


# What is expected of readers, held against what our own reader gets.


@pytest.mark.parametrize(
    "fixture", FIXTURE_TOPICS, ids=lambda fixture_topic: fixture_topic.expected.topic
)
async def test_a_fixture_topic_says_what_a_reader_gets(fixture: FixtureTopic) -> None:
    async with SimulatedTargets().open(2) as open_target:
        topic_partition = TopicPartition(await write_fixture(open_target.target, fixture), 0)
        admin = await open_target.target.admin()
        records = await read_topic(admin, topic_partition.topic, settle_ms=0)
        committed = [
            (record.value or b"").decode() for record in records if record.fate is Fate.COMMITTED
        ]
        assert short_values(committed) == fixture.expected.values
        stable_offset = await admin.offset_of(
            topic_partition, LATEST_TIMESTAMP, IsolationLevel.READ_COMMITTED
        )
        assert stable_offset == fixture.expected.stable
        assert await admin.offset_of(topic_partition, LATEST_TIMESTAMP) == fixture.expected.end


async def test_an_answer_is_cut_in_the_middle_of_a_large_batch() -> None:
    (large_fixture,) = (
        fixture_topic for fixture_topic in FIXTURE_TOPICS if fixture_topic.expected.topic == "large"
    )
    async with SimulatedTargets().open(2) as open_target:
        await write_fixture(open_target.target, large_fixture)
        kafka = open_target.kafka
        leader = kafka.cluster.brokers[BrokerId(await kafka.leaders.of("large"))]
        read = leader.replicas.hosted[TopicPartition("large", 0)].read(0, max_bytes=1 << 20)
        assert isinstance(read, LogRead)
        assert 0 < len(read.cut_batch) < LARGE_VALUE_BYTES


async def test_the_cleaner_has_left_an_empty_batch() -> None:
    (compacted_topic,) = (
        fixture_topic
        for fixture_topic in FIXTURE_TOPICS
        if fixture_topic.expected.topic == "compacted"
    )
    async with SimulatedTargets().open(2) as open_target:
        await write_fixture(open_target.target, compacted_topic)
        kafka = open_target.kafka
        leader = kafka.cluster.brokers[BrokerId(await kafka.leaders.of("compacted"))]
        log = leader.replicas.hosted[TopicPartition("compacted", 0)]
        counts = [int.from_bytes(batch[57:61]) for batch in log.batches()]
        assert 0 in counts, "the record count of a batch"


# The exam's own producer writes what it says, at each level of ``transaction.version``.


T_1 = TopicPartition("t", 1)


@pytest.mark.parametrize("transaction_version", [0, 1, 2])
def test_transactions_without_a_record_and_compressed_ones(transaction_version: int) -> None:
    async def write_and_read() -> tuple[list[tuple[bytes | None, str]], int]:
        async with AsyncSimulatedKafka(
            topics={"t": 2}, transaction_version=transaction_version
        ) as kafka:
            cluster = await kafka.rebuilt.client("neighbour")
            kafka.rebuilt.guests.append(cluster.close)
            neighbouring_producer = OldProtocolProducer(
                cluster=cluster,
                wait_for_state=kafka.transactions.wait_for_state,
                transactional_id="neighbour",
            )
            await neighbouring_producer.init()
            await neighbouring_producer.transact(T_1, (), is_commit=False)
            await neighbouring_producer.transact(T_1, ("a", "b"), is_commit=True, codec=GZIP)
            await neighbouring_producer.transact(T_1, ("c",), is_commit=False)
            records = await kafka.topics.read("t")
            end = (await kafka.topics.offsets("t", 1)).high_watermark
            return [(record.value, str(record.fate)) for record in records], end

    records, end = asyncio.run(write_and_read())
    assert records == [(b"a", "committed"), (b"b", "committed"), (b"c", "aborted")]
    assert end == 3 + 3  # three records and three markers
