"""The pytest plugin, in runs of pytest inside of pytest."""

from __future__ import annotations

import shlex

import aiokafka
import kafka
import pytest

from txnsim.config import _model as model
from txnsim.runtime.virtual.reproducible_process import ARRANGED, STRINGS, limits_of_process
from txnsim.testing import _repeating as repeating
from txnsim.testing import _session as session
from txnsim.testing import _virtual as virtual
from txnsim.testing import cluster
from txnsim_lab.testing import scenarios

pytestmark = pytest.mark.slow

IMPORTED = (aiokafka, kafka, cluster, model, repeating, scenarios, session, virtual)
"""Once for all runs inside of this process, each of which forgets what it has imported itself."""

ARM = 'faults.arm(id="idle", point="client.request", api="EndTxn", action="hold")'


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder whose tests run in the order in which they are written.

    Plugins that have nothing to do with it and import much stay out of each of these runs.
    """
    out = ("randomly", "cacheprovider", "schemathesis", "hypothesispytest", "pytest_cov")
    pytester.makeini(
        f"[pytest]\naddopts = {' '.join(f'-p no:{name}' for name in out)}\n"
        "asyncio_default_fixture_loop_scope = function\n"
    )
    return pytester


def test_every_test_has_a_cluster_of_its_own(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        seen = []

        def test_one(txnsim_cluster):
            txnsim_cluster.topics.create("orders")
            seen.append(txnsim_cluster.bootstrap)

        def test_two(txnsim_cluster):
            assert txnsim_cluster.topics.names() == ()
            assert txnsim_cluster.bootstrap not in seen
        """
    )
    suite.runpytest_inprocess().assert_outcomes(passed=2)


@pytest.mark.parametrize("last_test", ["a fault", "another test"])
def test_a_fault_of_the_shared_cluster_that_never_struck_fails_its_test(
    suite: pytest.Pytester, last_test: str
) -> None:
    idle_test = f"""
def test_idle(txnsim_session_cluster, faults):
    {ARM}
"""
    passing = "\ndef test_passing(txnsim_session_cluster): pass\n"
    suite.makepyfile(passing + idle_test if last_test == "a fault" else idle_test + passing)
    result = suite.runpytest_inprocess("-rN")  # the summary has it again where CI is set
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*never struck*", "*idle*"])
    assert str(result.stdout).count("never struck") == 1, "said once"


def test_an_interrupted_test_tells_what_happened(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest
        from kafka import KafkaProducer

        @pytest.mark.txnsim(topics=["orders"])
        def test_hangs(txnsim_cluster, faults):
            late = faults.arm(id="late", point="peer.request", api="WriteTxnMarkers", action="hold")
            producer = KafkaProducer(
                bootstrap_servers=txnsim_cluster.bootstrap.split(","), transactional_id="shop"
            )
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("orders", b"one order")
            producer.commit_transaction()
            late.wait_until_struck()
            producer.close()
            raise KeyboardInterrupt
        """
    )
    result = suite.runpytest_inprocess("-W", "ignore::DeprecationWarning", no_reraise_ctrlc=True)
    result.stdout.fnmatch_lines(
        [
            "*txnsim: what happened*",
            "*coordinator*shop*PrepareCommit*",
            "*txnsim: what transactions wait for*",
            "shop: the fault rule 'late' holds WriteTxnMarkers *: release it",
            "*txnsim: last events*",
            "*txnsim: faults*",
            "late: 1 matched, 1 struck, 1 held*",
        ]
    )
    assert '"BrokerHeartbeat"' not in result.stdout.str()


def test_a_marker_can_t_change_the_shared_cluster(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest

        @pytest.mark.txnsim(brokers=1, faults_may_miss=True)
        def test_other(txnsim_session_cluster): pass

        @pytest.mark.txnsim(faults_may_miss=True)
        def test_same(txnsim_session_cluster): pass

        @pytest.mark.txnsim(topics="orders", broker=3)
        def test_typo(txnsim_cluster): pass

        @pytest.mark.txnsim(transaction_version=1, as_version="3.6")
        def test_release(txnsim_cluster): pass

        @pytest.mark.txnsim(topics=["orders", "payments:3"])
        def test_topics(txnsim_cluster):
            topics = txnsim_cluster.cluster.metadata.image.topics
            assert len(topics["orders"].partitions) == 1
            assert len(topics["payments"].partitions) == 3
        """
    )
    result = suite.runpytest_inprocess()
    result.assert_outcomes(passed=2, errors=3)
    result.stdout.fnmatch_lines_random(
        [
            "*txnsim_session_cluster is one cluster for all tests: *brokers*txnsim_brokers*",
            "*no option 'broker'; did you mean brokers?*",
            "*transaction version 1: brokers of 3.6 know it up to 0 only*",
        ]
    )


def test_ini_options_and_markers_say_what_it_is_like(suite: pytest.Pytester) -> None:
    suite.makeini(
        """
        [pytest]
        addopts = -p no:randomly -p no:asyncio
        txnsim_brokers = 2
        txnsim_transaction_version = 1
        txnsim_topics =
            orders:4
        txnsim_settings =
            transaction.max.timeout.ms=60000
        """
    )
    suite.makepyfile(
        """
        import pytest

        def image(kafka):
            return kafka.cluster.metadata.image

        def test_ini(txnsim_cluster):
            assert len(txnsim_cluster.brokers.states()) == 2
            assert len(image(txnsim_cluster).topics["orders"].partitions) == 4
            assert image(txnsim_cluster).features["transaction.version"] == 1
            assert txnsim_cluster.cluster.options.settings.transaction_max_timeout_ms == 60000

        @pytest.mark.txnsim(brokers=1, topics={"payments": 1})
        class TestMarked:
            @pytest.mark.txnsim(transaction_version=2)
            def test_both(self, txnsim_cluster):
                assert len(txnsim_cluster.brokers.states()) == 1
                assert txnsim_cluster.topics.names() == ("payments",)
                assert image(txnsim_cluster).features["transaction.version"] == 2

        @pytest.mark.txnsim(partitions=1)
        def test_wrong(txnsim_cluster):
            pass
        """
    )
    result = suite.runpytest_inprocess()
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["txnsim: partitions: no option *there are: brokers, *"])


def test_a_fault_that_never_struck_fails_its_test_at_the_end(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        f"""
        import pytest

        def test_idle(faults):
            {ARM}

        @pytest.mark.txnsim(faults_may_miss=True)
        def test_told_by_marker(faults):
            {ARM}

        def test_told_when_armed(faults):
            faults.arm(point="client.request", api="EndTxn", action="hold", may_miss=True)

        def test_fails_anyhow(faults):
            {ARM}
            assert False, "its own reason"
        """
    )
    result = suite.runpytest_inprocess()
    result.assert_outcomes(passed=3, failed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at teardown of test_idle*",
            "armed, but never struck:",
            '  idle: nothing matched: {"id":"idle",*',
        ]
    )


def test_a_failing_test_tells_what_happened(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest
        from kafka import KafkaProducer

        @pytest.mark.txnsim(topics=["orders"])
        def test_abort(txnsim_cluster):
            txnsim_cluster.faults.arm(
                id="once", point="client.request", api="EndTxn", limit=1,
                action={"do": "error", "error": "NOT_COORDINATOR"},
            )
            producer = KafkaProducer(
                bootstrap_servers=txnsim_cluster.bootstrap.split(","),
                transactional_id="shop", client_id="shop",
            )
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("orders", b"one", partition=0).get(30)
            producer.abort_transaction()
            producer.close()
            txnsim_cluster.transactions.wait_for_state("shop", "CompleteAbort")
            txnsim_cluster.assert_exactly_once(["one"], "orders")
        """
    )
    result = suite.runpytest_inprocess("-W", "ignore")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E*AssertionError: not exactly once, from what was given to orders:*",
            "E*missing: 1 record*",
            "E*'one' (written there in a transaction that is aborted)*",
            "*txnsim: what happened*",
            "* ms  coordinator (broker *): shop (producer 1000, epoch 0) is Ongoing with orders-0*",
            "* ms  fault: error NOT_COORDINATOR EndTxn of shop*",
            "* ms  orders-0 (broker *): ABORT marker *",
            "*txnsim: last events*",
            "*txnsim: faults*",
            "once: * struck,*",
        ]
    )


def test_the_shared_cluster_outlives_tests_and_its_faults_do_not(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        f"""
        import pytest

        @pytest.fixture(scope="session")
        def bootstrap(txnsim_session_cluster):
            return txnsim_session_cluster.bootstrap

        def test_one(bootstrap, txnsim_session_cluster, faults):
            assert txnsim_session_cluster.bootstrap == bootstrap
            txnsim_session_cluster.topics.create("orders")
            {ARM}

        def test_two(bootstrap, txnsim_session_cluster, faults):
            assert txnsim_session_cluster.topics.names() == ("orders",)
            assert faults.states() == ()
            txnsim_session_cluster.reset()
            assert txnsim_session_cluster.bootstrap == bootstrap
            assert txnsim_session_cluster.topics.names() == ()

        def test_three(txnsim_session_cluster):
            txnsim_session_cluster.trace.note("of the third")
            assert False

        def test_other(txnsim_cluster, txnsim_session_cluster):
            assert txnsim_cluster.bootstrap != txnsim_session_cluster.bootstrap
        """
    )
    result = suite.runpytest_inprocess()
    result.assert_outcomes(passed=3, failed=1, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_one*", "armed, but never struck:"])
    result.stdout.fnmatch_lines(["*txnsim: what happened*", "*scenario: of the third*"])


COROUTINES = """
    import asyncio
    import pytest

    pytestmark = {marks}

    async def test_coroutines(async_txnsim_cluster, async_faults, async_clock):
        fault = await async_faults.arm(point="client.request", api="Metadata", action="pass")
        await async_txnsim_cluster.topics.create("orders")
        await async_clock.advance(1000)
        await async_txnsim_cluster.assert_exactly_once([], "orders")
        await fault.wait_until_struck()

    async def test_shared(async_txnsim_session_cluster, async_wait_until_struck, async_faults):
        await async_faults.arm(id="seen", point="client.request", api="Metadata", action="pass")
        await async_txnsim_session_cluster.topics.create("orders")
        await async_txnsim_session_cluster.topics.read("orders")
        await async_wait_until_struck("seen")
"""


@pytest.mark.parametrize(
    ("marks", "options"),
    [
        ("pytest.mark.asyncio", ["-p", "no:anyio"]),
        ("pytest.mark.asyncio", []),
        ("pytest.mark.anyio", ["-p", "no:asyncio"]),
    ],
    ids=["asyncio", "both", "anyio"],
)
def test_coroutines_with_the_plugin_of_your_choice(
    suite: pytest.Pytester, marks: str, options: list[str]
) -> None:
    suite.makeconftest(
        "import pytest\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
    )
    suite.makepyfile(COROUTINES.format(marks=marks))
    suite.runpytest_inprocess(*options).assert_outcomes(passed=2)


def test_coroutines_without_any_plugin(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import asyncio

        def test_run(async_txnsim_cluster):
            async def main():
                await async_txnsim_cluster.topics.create("orders")
                return await async_txnsim_cluster.topics.names()

            assert asyncio.run(main()) == ("orders",)
        """
    )
    result = suite.runpytest_inprocess("-p", "no:asyncio", "-p", "no:anyio")
    result.assert_outcomes(passed=1)


@pytest.mark.costly
def test_virtual_time(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        f"""
        import asyncio
        import pytest
        from aiokafka import AIOKafkaProducer

        @pytest.mark.txnsim(topics=["orders"])
        def test_minutes(txnsim_virtual):
            async def main(kafka):
                producer = AIOKafkaProducer(
                    bootstrap_servers=kafka.bootstrap, transactional_id="shop"
                )
                async with producer:
                    async with producer.transaction():
                        await producer.send_and_wait("orders", b"one")
                    await asyncio.sleep(600)
                await kafka.assert_exactly_once(["one"], "orders")
                return kafka.rebuilt.tracer.hash

            assert txnsim_virtual(main, seed=7)

        def test_idle(txnsim_virtual):
            async def main(kafka):
                await kafka.{ARM}

            txnsim_virtual(main)

        def test_fails(txnsim_virtual):
            async def main(kafka):
                await kafka.trace.note("of virtual time")
                assert False

            txnsim_virtual(main, seed=3, brokers=1)

        def test_refused(txnsim_virtual):
            txnsim_virtual(lambda kafka: None, partitions=1)
        """
    )
    result = suite.runpytest_inprocess()
    result.assert_outcomes(passed=2, failed=2, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_idle*", "armed, but never struck:"])
    result.stdout.fnmatch_lines(
        ["E*virtual run with seed 3*", "*txnsim: what happened*", "*scenario: of virtual time*"]
    )


@pytest.mark.costly
def test_a_failed_virtual_run_is_seen_again_by_one_command(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With aiokafka, whatever the hash seed: the trace is the same, draw by draw."""
    suite.makepyfile(
        """
        import asyncio, random
        import pytest
        from aiokafka import AIOKafkaProducer

        @pytest.mark.txnsim(topics={"orders": 3, "payments": 2})
        def test_fails(txnsim_virtual):
            async def main(kafka):
                producers = [
                    AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=name)
                    for name in ("ada", "bob")
                ]

                async def transact(producer):
                    async with producer:
                        async with producer.transaction():
                            for topic in ("orders", "payments"):
                                await producer.send_and_wait(topic, b"one")

                await asyncio.gather(*map(transact, producers))
                records = await kafka.topics.read("orders")
                pytest.fail(f"seen: {kafka.rebuilt.tracer.hash} {records}", pytrace=False)

            txnsim_virtual(main, seed=random.randrange(2**32))
        """
    )
    outcomes_seen, commands = set(), set()
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    arguments = ["--txnsim-repeatable"]
    for hash_seed in ("2", "random"):
        result = suite.runpytest_subprocess(*arguments)
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["txnsim: virtual runs repeat in every process"])
        (outline_line,) = [line for line in result.outlines if line.startswith("seen: sha256:")]
        (command,) = [
            outline_line
            for outline_line in result.outlines
            if outline_line.startswith("python -m pytest ")
        ]
        outcomes_seen.add(outline_line)
        commands.add(command)
        arguments = shlex.split(command)[3:]
        monkeypatch.setenv("PYTHONHASHSEED", hash_seed)
    assert len(outcomes_seen) == len(commands) == 1


@pytest.mark.costly
def test_a_failed_virtual_run_names_what_keeps_it_from_repeating(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        def test_fails(txnsim_virtual):
            async def main(kafka):
                assert False

            txnsim_virtual(main)
        """
    )
    result = suite.runpytest_subprocess("--txnsim-seed=41")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E*virtual run with seed 41",
            "*txnsim: see it again*",
            "virtual time, seed 41",
            "python -m pytest *::test_fails --txnsim-seed=41 --txnsim-repeatable",
        ]
    )
    if limits_of_process():
        result.stdout.fnmatch_lines(["this process was not arranged: *"])


def test_pytest_inside_of_a_program_says_that_it_can_not_start_again(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeating, "limits_of_process", lambda: (STRINGS,))
    monkeypatch.delenv(ARRANGED, raising=False)
    result = suite.runpytest_inprocess("--txnsim-repeatable")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*called by another program*arrange_process()*"])


@pytest.mark.costly
def test_several_processes_do_not_meet(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_each(number, txnsim_cluster, txnsim_session_cluster):
            txnsim_cluster.topics.create("orders")
            assert txnsim_cluster.topics.names() == ("orders",)

        def test_fails(txnsim_cluster):
            txnsim_cluster.trace.note("told by a worker")
            assert False
        """
    )
    result = suite.runpytest_subprocess("-n", "2")
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*txnsim: what happened*", "*scenario: told by a worker*"])


def test_a_suite_that_does_not_use_it_is_not_disturbed(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import sys
        import pytest

        @pytest.fixture
        def clock():
            return "ours"

        def test_own_fixture(clock):
            assert clock == "ours"

        def test_nothing_is_loaded():
            assert not [name for name in sys.modules if name.startswith("txnsim.server")]

        def test_fails():
            assert False
        """
    )
    result = suite.runpytest_subprocess("-p", "no:asyncio", "-p", "no:anyio", "--strict-markers")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.no_fnmatch_line("*txnsim: *")


@pytest.mark.parametrize("form_name", ["html", "html-redacted"])
def test_a_failing_test_leaves_its_page_on_request(form_name: str, suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        def test_fails(txnsim_cluster):
            txnsim_cluster.trace.note("the secret is told")
            assert False

        def test_passes(txnsim_cluster): pass

        def test_has_no_cluster():
            assert False
        """
    )
    result = suite.runpytest_inprocess(f"--txnsim-report={form_name}")
    result.assert_outcomes(passed=1, failed=2)
    (page_file,) = (suite.path / "txnsim-reports").iterdir()
    warning = "holds record values" if form_name == "html" else "values are left out"
    result.stdout.fnmatch_lines([f"{page_file}", f"*{warning}*"])
    assert "test_fails" in page_file.name
    assert warning in page_file.read_text("utf-8")
