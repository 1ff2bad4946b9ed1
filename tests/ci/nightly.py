"""The parts of ``make nightly``: checks that draw at random, or take longer than a change can wait.

Every client library is asked at every level of the simulator; those of Java and Go against a real
Apache Kafka as well, so that a check that is wrong about Kafka fails.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Final

from tests.ci.asking import (
    PYTHON,
    checks,
    in_a_browser,
    install_debian,
    install_group,
    matrix,
    pytest,
)
from tests.ci.process import Deadline, PartOutcome, judge_checks, judge_pytest, judge_step, run
from tests.clients.matrix.bench import PROPERTIES
from tests.support.apache_kafka import ApacheKafka, kafka_libs
from tests.support.chance import DRAWN
from tests.support.foreign_clients import go_program, java_program
from tests.support.txnsim_server import TxnsimServer

LEVELS: Final = (0, 1, 2)
"""Of ``transaction.version``."""
AS_BELOW: Final = 1
"""The level at which clients send the same as at the level below, and only the brokers' records are
newer. Fewer cases are played there.
"""

REAL_TESTS: Final = (
    "tests/real/test_client.py",
    "tests/real/test_operator.py",
    "tests/real/test_txns_tool.py",
)
"""Tests of our own client and tools on a real broker. A real broker's answers to every story are
recorded, and other tests replay them; ``make conformance`` records them again.
"""

OLDEST_TEST: Final = "tests/real/test_before_producers_are_described.py"
LATE_UNLOAD_TEST: Final = "tests/real/test_late_unload.py"
TWO_RELEASES_TEST: Final = "tests/real/test_two_releases.py"
REFUSED_MARKERS_TEST: Final = "tests/real/test_refused_markers.py"

NEWEST: Final = "newest"
OLDER: Final = "3.9"
"""Release lines of a real Kafka that our client and tools are asked on (tests/real/conftest.py)."""

STOCK_CLIENTS: Final = ("kafka-clients", "franz-go")
"""Clients that are also run against a real broker, which judges the list of checks. The other
clients share these checks.
"""

KILLS: Final[Mapping[int, int]] = MappingProxyType({0: 20, AS_BELOW: 8, 2: 20})
"""How often Kafka Streams is killed, by level. The choice of kills is the same every time. At
``AS_BELOW`` each way to die before, in and between the markers is enough.
"""

SEEDS: Final = (2, 3, 4)
"""Of clusters in virtual time; ``make test`` plays those before (``tests.check.SEEDS_FULL``)."""

MUTANTS_MINUTES: Final = 12
"""After so many no further mutant begins, of rules and of rooms each."""

LEADERLESS: Final = ("txnsim-4.3", "txnsim-4.4")
"""Releases as which KAFKA-20734 is played to us (tests/real/leaderless.py)."""

Ask = Callable[[Deadline], PartOutcome]


def make_test(deadline: Deadline) -> PartOutcome:
    """The repository's own check in another order and with other examples, and the branch coverage
    of the cores.
    """
    command = ["make", "test", "ARGS=--coverage --drawn --all"]
    return judge_pytest("make test", run(command, deadline=deadline))


def other_levels_and_seeds(deadline: Deadline) -> PartOutcome:
    """Cases at levels where Kafka answered as at a higher one, every run with another seed,
    damage at more places, and clusters with further seeds: ``make test`` plays some of each.
    """
    folders = ("broker", "conformance", "lab", "spark")
    plays = (*(f"tests/{folder_path}" for folder_path in folders), "-m", "thorough")
    chosen_options = [option for seed in SEEDS for option in ("--seed", str(seed))]
    judged_tests = "tests/lab/check/test_judged_chaos.py"
    clusters = ("tests/broker/simulation", judged_tests, "-m", "", "-k", "seed", *chosen_options)
    return _run_drawn("other levels and another seed", *plays, deadline=deadline) + _run_drawn(
        "further seeds", *clusters, deadline=deadline
    )


def lessons_and_site(deadline: Deadline) -> PartOutcome:
    """Every lesson in a browser, the site without a network, every run in its WebAssembly; the page
    about a moment also in Firefox; the notebook for a class in Jupyter.
    """
    if shutil.which("firefox-esr") is None:
        missing = install_debian("firefox-esr", deadline=deadline)
        if missing.failed:
            return missing
    verdict = in_a_browser("browser and nightly", deadline) + install_group("notebook", deadline)
    chosen_options = ("tests/test_handouts.py", "-m", "nightly")
    return verdict + _run_drawn("notebook for a class", *chosen_options, deadline=deadline)


def toolchains(deadline: Deadline) -> PartOutcome:
    """Fetch Kafka's jars and build every client program, once for all other parts."""
    kafka_libs()
    # @confluentinc/kafka-javascript is compiled, where its binary can't be fetched.
    headers = install_debian("libcurl4-openssl-dev", "libssl-dev", deadline=deadline)
    return headers + matrix("programs", "--build", deadline=deadline)


def txnsim_at(transaction_version: int) -> Ask:
    """Every client and Kafka's tool against the simulator; at ``AS_BELOW`` the stock ones."""
    client_options = ("--client", *STOCK_CLIENTS) if transaction_version == AS_BELOW else ()

    def ask(deadline: Deadline) -> PartOutcome:
        target_label = f"txnsim, transaction.version {transaction_version}"
        # One lane: the parts of CI are side by side already.
        chosen_options = ("--level", str(transaction_version), "--lanes", "1", *client_options)
        verdict = matrix(target_label, *chosen_options, deadline=deadline)
        verdict += _tests_real(
            target_label, "txnsim", "--level", str(transaction_version), deadline=deadline
        )
        with TxnsimServer(transaction_version=transaction_version) as server:
            return verdict + _transactions_command(target_label, server.bootstrap, deadline)

    return ask


def kafka_at(transaction_version: int) -> Ask:
    """The same against a real Apache Kafka, and what our own client and ``txns`` do there."""

    def ask(deadline: Deadline) -> PartOutcome:
        with ApacheKafka(transaction_version=transaction_version, properties=PROPERTIES) as kafka:
            target_label = f"Kafka, transaction.version {transaction_version}"
            target_options = (
                "--bootstrap",
                kafka.bootstrap,
                "--level",
                str(transaction_version),
                "--lanes",
                "1",
            )
            verdict = matrix(
                target_label, *target_options, "--client", *STOCK_CLIENTS, deadline=deadline
            )
            verdict += _tests_real(
                target_label, "apache", "--level", str(transaction_version), deadline=deadline
            )
            # Last, as it leaves verification switched off.
            return verdict + _transactions_command(target_label, kafka.bootstrap, deadline)

    return ask


def older_kafka(deadline: Deadline) -> PartOutcome:
    """Our client and ``txns`` on the release before, beside its own tools; the same on ourselves as
    that release; an abort on one that is older than every API that would describe transactions;
    a commit that is lost up to 4.1 (KAFKA-20634); brokers of two releases; and who stays prepared
    behind a marker that is refused.
    """
    verdict = _tests_real(f"Kafka {OLDER}", "apache", release=OLDER, deadline=deadline)
    verdict += _tests_real(f"txnsim as {OLDER}", "txnsim", release=OLDER, deadline=deadline)
    verdict += _run_real("tests/real, Kafka 2.7", OLDEST_TEST, deadline=deadline)
    verdict += _run_real("a late unload", LATE_UNLOAD_TEST, deadline=deadline)
    verdict += _run_real("brokers of two releases", TWO_RELEASES_TEST, deadline=deadline)
    return verdict + _run_real("refused markers", REFUSED_MARKERS_TEST, deadline=deadline)


def streams_killed_at(transaction_version: int) -> Ask:
    """Kafka Streams on the simulator, killed at named points; its counts must stay exact."""

    def ask(deadline: Deadline) -> PartOutcome:
        arguments = (
            "tests.clients.streams.kills",
            "--level",
            str(transaction_version),
            "--kills",
            str(KILLS[transaction_version]),
        )
        return checks(
            f"kills of Kafka Streams at {transaction_version}", *arguments, deadline=deadline
        )

    return ask


def streams_groups(deadline: Deadline) -> PartOutcome:
    """Kafka Streams with groups of its own: killed at named points; and, as with classic groups,
    ten times in trouble of every kind.
    """
    kills = ("tests.clients.streams.kills", "--kills", "6", "--protocol", "streams")
    exact = ("tests.clients.streams.exactly_once", "--times", "10", "--protocol", "both")
    label = "streams groups"
    verdict = checks(f"{label} under kills", *kills, deadline=deadline)
    return verdict + checks(f"{label} in trouble", *exact, deadline=deadline)


def share_consumers(deadline: Deadline) -> PartOutcome:
    """Java's share consumer is told what a real Kafka told it; then it, librdkafka's and franz-go's
    while brokers are killed and leaders and coordinators move.
    """
    label = "share consumers"
    verdict = _run_real(
        f"{label}, stories", "tests/clients/share/test_share_stories.py", deadline=deadline
    )
    arguments = ("tests.clients.share.kills", "--strikes", "12")
    return verdict + checks(f"{label} under kills", *arguments, deadline=deadline)


def random_play(deadline: Deadline) -> PartOutcome:
    """The same random requests to a real broker and to ours, answer by answer, at every level; and
    what is drawn for single classes of Kafka's jars: configs, lists, patterns, share partitions.
    """
    paths = (
        "tests/conformance/test_random_play.py",
        "tests/real/test_group_configs.py",
        "tests/real/test_list_configs.py",
        "tests/real/test_re2j.py",
        "tests/real/test_share_partition.py",
    )
    return _run_real("random play, Kafka and txnsim", *paths, deadline=deadline)


def metrics_and_rights(deadline: Deadline) -> PartOutcome:
    """Our metrics beside a real broker's JMX, through the same story; then which rights requests
    of transactions ask for, at a real StandardAuthorizer; then a fault proxy in front of a broker.
    """
    paths = (
        "tests/real/test_metrics.py",
        "tests/conformance/test_rights.py",
        "tests/real/test_proxy.py",
    )
    return _run_real("metrics, rights and the proxy, Kafka and txnsim", *paths, deadline=deadline)


def messages_of_clients(deadline: Deadline) -> PartOutcome:
    """What docs/troubleshooting.md quotes of clients, looked for again in their releases."""
    return _run_real("messages of clients", "tests/test_troubleshooting.py", deadline=deadline)


def stories_on_real_brokers(deadline: Deadline) -> PartOutcome:
    """Some stories on three real brokers behind the proxy and on the simulator: equal verdicts."""
    test = "tests/real/test_stories_on_real_brokers.py"
    return _run_real("stories, Kafka and txnsim", test, deadline=deadline)


def stage(deadline: Deadline) -> PartOutcome:
    """Every story on the newest release and on another one each day, and commits without a leader;
    ``make stage`` plays five.
    """
    # make hands its variables on: --missing of `make nightly` would leave out all that is kept.
    return judge_step("stage", run(["make", "stage", "ARGS=--tonight"], deadline=deadline))


def disks(deadline: Deadline) -> PartOutcome:
    """Disks of real brokers in the simulator, its records on the disk of a real broker, and the
    findings of an operator on the disks of three. The first test may have to make the disks.
    """
    paths = (
        "tests/real/test_loaded_disks.py",
        "tests/real/test_written_replica.py",
        "tests/real/test_operators_story.py",
    )
    return _run_real("disks of Kafka and of txnsim", *paths, deadline=deadline)


def spark_and_kafka(deadline: Deadline) -> PartOutcome:
    """The pipeline on log directories of a real Kafka with recorded truth, on its streams, in an S3
    server, on a standalone master with two workers; a notebook.
    """
    missing = install_group("stores", deadline) + install_group("notebook", deadline)
    if missing.failed:
        return missing
    corpus = [PYTHON, "-m", "tests.spark.pipeline.corpus.make"]
    # What takes Spark minutes, such as a job per damaged directory, is asked for by `-m slow`.
    chosen_options = ("tests/spark/pipeline", "-m", "spark and (real or nightly) and not slow")
    with ThreadPoolExecutor(1) as executor:
        # Its brokers mostly wait, so other tests run meanwhile; those that read it come last.
        making_future = executor.submit(run, corpus, deadline=deadline)
        verdict = _run_drawn("Spark and Kafka", *chosen_options, deadline=deadline)
        corpus_outcome = judge_step("Spark and Kafka: the corpus", making_future.result())
    return verdict + corpus_outcome if corpus_outcome.failed else verdict


def image(deadline: Deadline) -> PartOutcome:
    """The container image: built without an engine, then a client, its health check, SIGTERM, a
    read-only root and an arbitrary user. The first test makes a Debian.
    """
    missing = install_group("testcontainers", deadline)
    if missing.failed:
        return missing
    return _run_drawn("container image", "tests/image", "-m", "image", deadline=deadline)


def testcontainers(deadline: Deadline) -> PartOutcome:
    """The classes for Testcontainers in five languages; an engine of our own runs containers."""
    missing = install_group("testcontainers", deadline)
    if missing.failed:
        return missing
    return _run_real(
        "Testcontainers", "tests/broker/testing/test_testcontainers.py", deadline=deadline
    )


def fuzzing(deadline: Deadline) -> PartOutcome:
    """Two minutes of coverage-guided fuzzing, over all targets, from the corpus that is kept."""
    missing = install_group("fuzz", deadline)
    if missing.failed:
        return missing
    return checks("fuzzing", "tests.fuzz", "--all", "--minutes", "2", deadline=deadline)


def schemathesis(deadline: Deadline) -> PartOutcome:
    """Send a server requests that the control port's OpenAPI document allows or forbids."""
    missing = install_group("schemathesis", deadline)
    if missing.failed:
        return missing
    command = [PYTHON, "-m", "tests.lab.control_port.schemathesis", "--examples", "5"]
    return judge_step("Schemathesis", run(command, deadline=deadline))


def late_produce(deadline: Deadline) -> PartOutcome:
    """Stock clients whose Produce arrives after their abort, with Kafka's defences and without."""
    module_name = "tests.clients.late_produce"
    return checks(
        "late Produce, Kafka", module_name, deadline=deadline, python_program=sys.executable
    )


def stories_of_clients(deadline: Deadline) -> PartOutcome:
    """The simulator's scenario of the same story with stock clients as its producer, and the view
    of one of them on a commit without a leader.
    """
    # Side by side with everything else, an acknowledgement may take longer than a story's patience.
    patient = ("--delivery-timeout-ms", "6000", "--request-timeout-ms", "2500")
    java = shlex.join([*java_program("LateProduce"), *patient])
    go = shlex.join([str(go_program()), "late-produce"])  # waits 150 ms, and no option for it
    run_one = [PYTHON, "-m", "txnsim.cli.main", "scenario", "run", "late-produce-after-abort"]
    verdict = PartOutcome(0, 0)
    for name, options in (("Java", ("--program", java)), ("Go", ("--armed", "--program", go))):
        program_result = run([*run_one, "--quiet", *options], deadline=deadline)
        verdict += judge_step(f"scenario played by {name}", program_result)
    leaderless = [PYTHON, "-m", "tests.real.leaderless", *LEADERLESS]
    return verdict + judge_step("commit without a leader", run(leaderless, deadline=deadline))


def suites_of_kafka(deadline: Deadline) -> PartOutcome:
    """Apache Kafka's own tests of transactions, groups, Streams, Connect and MirrorMaker; and that
    none of their brokers outlives its JVM.
    """
    command = [sys.executable, "-m", "tests.peers.run", "java"]
    verdict = judge_step("suites of Apache Kafka", run(command, deadline=deadline))
    return verdict + _run_real("a killed JVM", "tests/peers/test_java.py", deadline=deadline)


def suites_of_clients(deadline: Deadline) -> PartOutcome:
    """Tests that client libraries publish with their packages: librdkafka's, those of four clients
    in Go, kafka-python's, rdkafka's. What does not pass here has a reason (tests/peers/RESULTS.md).
    """
    verdict = PartOutcome(0, 0)
    for ecosystem in ("c", "go", "python", "rust"):
        command = [PYTHON, "-m", "tests.peers.run", ecosystem]
        verdict += judge_step(f"suites of clients, {ecosystem}", run(command, deadline=deadline))
    return verdict


def helpers(deadline: Deadline) -> PartOutcome:
    """The helpers for tests in Go, Node.js and Java, with a client library of each language, and
    the programs of other languages that need none.
    """
    languages = install_debian("php-cli", "ruby", "erlang-inets", "erlang-ssl", deadline=deadline)
    return languages + checks(
        "helpers", "tests.helpers.run", deadline=deadline, python_program=sys.executable
    )


def journeys(deadline: Deadline) -> PartOutcome:
    """The first hour of new users, within the seconds that are promised."""
    return checks("journeys", "tests.release.journeys", deadline=deadline)


def judges(deadline: Deadline) -> PartOutcome:
    """Compare every judge with its definition on a hundred thousand histories."""
    command = [PYTHON, "-m", "tests.lab.checkers.brute_force", "--histories", "100000"]
    return judge_step("judges", run(command, deadline=deadline))


def mutants(deadline: Deadline) -> PartOutcome:
    """Lines of the functions that rules name, and a hundred of the cores, are broken one by one:
    their tests notice it. The functions that the time allows are other ones each day.
    """
    command = [PYTHON, "-m", "tests.mutants", "both", "--workers", "1", "--seed", "of the day"]
    times = ("--minutes", f"{MUTANTS_MINUTES}")
    return judge_step("mutants", run([*command, *times], deadline=deadline))


def audit(deadline: Deadline) -> PartOutcome:
    """Licences, bounds and known vulnerabilities of what is installed."""
    program_result = run([PYTHON, "-m", "tests.ci.audit"], deadline=deadline)
    open_lines = "\n".join(
        printed_line
        for printed_line in program_result.output.splitlines()
        if printed_line.startswith("OPEN ")
    )
    # What could not be asked is told, also where all else is well.
    return judge_checks("audit", program_result.code, program_result.output) + PartOutcome(
        0, 0, open_lines
    )


def soak(deadline: Deadline) -> PartOutcome:
    """Two minutes of four clients, a chain and the raw generator while brokers die, leaders move
    and clocks jump: exactly once, and flat.
    """
    return checks("soak", "tests.soak", "--minutes", "2", "--rate", "300", deadline=deadline)


def _run_drawn(name: str, *arguments: str, deadline: Deadline) -> PartOutcome:
    """Run tests in an order that is drawn anew for each run."""
    return pytest(name, *DRAWN, *arguments, deadline=deadline)


def _run_real(name: str, *arguments: str, deadline: Deadline) -> PartOutcome:
    return _run_drawn(name, *arguments, "-m", "real", deadline=deadline)


def _transactions_command(target_label: str, bootstrap: str, deadline: Deadline) -> PartOutcome:
    module_name = "tests.clients.kafka_tools.transactions_command"
    arguments = (module_name, bootstrap, "haunted-house:0", "haunted-tower:0", "--make-hang")
    name = f"TransactionsCommand, {target_label}"
    return checks(name, *arguments, deadline=deadline, python_program=sys.executable)


def _tests_real(
    target_label: str, target: str, *options: str, release: str = NEWEST, deadline: Deadline
) -> PartOutcome:
    """Those of ``REAL_TESTS`` that need Java for this target: for ourselves, what is compared with
    Kafka's own tool; the others are part of ``make test``.
    """
    target_options = ("--target", target, "--release", release, *options)
    return _run_real(f"tests/real, {target_label}", *REAL_TESTS, *target_options, deadline=deadline)
