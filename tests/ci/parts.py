"""The parts of CI: each one a question to the product as users meet it, each one a ``PartOutcome``.

Every client library is asked at every level of the simulator; those of Java and Go against a real
Apache Kafka as well, so that a check that is wrong about Kafka fails.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from tests.ci.process import (
    REPOSITORY,
    Deadline,
    PartOutcome,
    judge_checks,
    judge_pytest,
    judge_step,
    run,
)
from tests.clients.matrix.bench import PROPERTIES
from tests.support.apache_kafka import ApacheKafka, kafka_libs
from tests.support.foreign_clients import go_program, java_program
from tests.support.txnsim_server import TxnsimServer

LEVELS: Final = (0, 1, 2)
"""Of ``transaction.version``."""
AS_BELOW: Final = 1
"""The level at which a client says what it says at the one below: only the records that brokers
keep are newer. Fewer are asked there.
"""

REAL_TESTS: Final = (
    "tests/real/test_client.py",
    "tests/real/test_operator.py",
    "tests/real/test_txns_tool.py",
)
"""What is asked of our own client and tools on a real broker. The answers of a real broker to every
story are kept, and the tests replay them without one; ``make conformance`` asks for them anew.
"""

OLDEST_TEST: Final = "tests/real/test_before_producers_are_described.py"

NEWEST: Final = "4.3"
OLDER: Final = "3.9"
"""Release lines of a real Kafka that our client and tools are asked on (tests/real/conftest.py)."""

STOCK_CLIENTS: Final = ("kafka-clients", "franz-go")
"""Those that a real broker is asked with, as the judge of the list; the others share its checks."""

KILLS: Final[Mapping[int, int]] = MappingProxyType({0: 20, AS_BELOW: 8, 2: 20})
"""Of Kafka Streams by level; which ones is the same every time. At ``AS_BELOW`` each way to die
before, in and between the markers is enough.
"""

SEEDS: Final = (2, 3, 4)
"""Of clusters in virtual time; ``make test`` plays those before (``tests.check.SEEDS_FULL``)."""

_PYTHON: Final = REPOSITORY / ".venv" / "bin" / "python"


class Part(NamedTuple):
    """One question."""

    name: str
    minutes: float
    """What it may take on a quiet machine with two cores, beside other parts."""
    ask: Callable[[Deadline], PartOutcome]
    cores: float = 1.0
    """How many it keeps busy, on the average: a part that waits for the clock leaves room."""
    needs_programs: bool = True
    """Whether it waits until the programs of all clients are made."""


def make_test(deadline: Deadline) -> PartOutcome:
    """The repository's own check, with the clients written in Python; it makes ``.venv``. Here it
    asks as well whether the tests of the cores take every branch.
    """
    command = ["make", "test", "ARGS=--coverage"]
    return judge_pytest("make test", run(command, deadline=deadline))


def repeated(deadline: Deadline) -> PartOutcome:
    """Cases at levels where Kafka answered as at a higher one, every telling with another seed,
    damage at more places, and clusters with further seeds: ``make test`` plays some of each.
    """
    pytest = [str(_PYTHON), "-m", "pytest", "-q"]
    where = ("conformance", "scenario", "unit", "pipeline")
    plays = [*pytest, *(f"tests/{one}" for one in where), "-m", "thorough"]
    verdict = judge_pytest("other levels and another seed", run(plays, deadline=deadline))
    chosen = [word for seed in SEEDS for word in ("--seed", str(seed))]
    clusters = [*pytest, "tests/simulation", "-m", "", "-k", "seed", *chosen]
    return verdict + judge_pytest("further seeds", run(clusters, deadline=deadline))


def toolchains(deadline: Deadline) -> PartOutcome:
    """Kafka's jars and the program of every client, once for all other parts."""
    kafka_libs()
    return _matrix("programs", "--build", deadline=deadline)


def wheel(deadline: Deadline) -> PartOutcome:
    """The wheel, built, installed without a compiler, and run from an empty directory."""
    with tempfile.TemporaryDirectory(prefix="txnsim-wheel-") as name:
        root = Path(name)
        empty = root / "empty"
        empty.mkdir()
        build = [str(_PYTHON), "-m", "build", "--wheel", "--outdir", str(root / "dist")]
        built = judge_step("build the wheel", run(build, deadline=deadline))
        if built.failed:
            return built
        (file,) = (root / "dist").glob("*.whl")
        environment = root / "venv"
        make = [sys.executable, "-m", "venv", str(environment)]
        pip = [str(environment / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        # Only wheels: a user without a compiler must get a running program.
        install = [*pip, "install", "--quiet", "--only-binary", ":all:", str(file)]
        for step in (make, install):
            done = judge_step(" ".join(step[-2:]), run(step, deadline=deadline))
            if done.failed:
                return done
        plugin = _run_plugin(environment / "bin" / "python", empty, deadline)
        return built + plugin + _run_installed(environment / "bin" / "txnsim", empty, deadline)


def page(deadline: Deadline) -> PartOutcome:
    """The page in a real browser: Debian's Chromium, installed where it is missing."""
    if shutil.which("chromium") is None:
        apt = ["apt-get", "install", "-y", "-q", "--no-install-recommends"]
        for step in (["apt-get", "update", "-q"], [*apt, "chromium", "fonts-dejavu-core"]):
            done = judge_step(" ".join(step[:2]), run(step, deadline=deadline))
            if done.failed:
                return done
    pip = [str(_PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    installed = judge_step(
        "page: install Playwright", run([*pip, "--group", "browser"], deadline=deadline)
    )
    if installed.failed:
        return installed
    ask = [str(_PYTHON), "-m", "pytest", "-q", "-n", "2", "-m", "browser", "tests/browser"]
    environment = {"TXNSIM_NEEDS_BROWSER": "1"}
    return judge_pytest("page", run(ask, deadline=deadline, environment=environment))


def _run_plugin(python: Path, empty: Path, deadline: Deadline) -> PartOutcome:
    """A suite of somebody who has installed pytest beside it, and nothing of ours but the wheel.

    Its project has a folder ``sim`` of its own.
    """
    install = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q", "pytest"]
    installed = judge_step("wheel: install pytest", run(install, deadline=deadline))
    if installed.failed:
        return installed
    (empty / "sim").mkdir()
    (empty / "sim" / "__init__.py").write_text("OWN = True\n")
    test = (
        "import sim\n\n\n"
        "def test_cluster(txnsim_cluster):\n"
        "    assert sim.OWN\n"
        "    txnsim_cluster.assert_exactly_once([], [])\n"
    )
    (empty / "test_cluster.py").write_text(test)
    finished = run([str(python), "-m", "pytest", "-q"], deadline=deadline, directory=empty)
    return judge_pytest("wheel: pytest plugin", finished)


def _run_installed(command: Path, empty: Path, deadline: Deadline) -> PartOutcome:
    verdict = PartOutcome(0, 0)
    story = "late-produce-after-abort"
    for arguments in (
        ("scenario", "list"),
        ("scenario", "show", story),
        ("scenario", "run", story),
    ):
        finished = run([str(command), *arguments], deadline=deadline, directory=empty)
        verdict += judge_step(f"wheel: txnsim {' '.join(arguments)}", finished)
    with TxnsimServer(executable=command, working_directory=empty) as server:
        listing = [str(command), "txns", "--bootstrap-server", server.bootstrap, "list"]
        finished = run(listing, deadline=deadline, directory=empty)
        verdict += judge_step("wheel: txnsim txns list", finished)
    return verdict


def txnsim_at(level: int) -> Part:
    """Every client and Kafka's tool against the simulator; at ``AS_BELOW`` the stock ones."""
    which = ("--client", *STOCK_CLIENTS) if level == AS_BELOW else ()

    def ask(deadline: Deadline) -> PartOutcome:
        where = f"txnsim, transaction.version {level}"
        # One lane: the parts of CI are side by side already.
        chosen = ("--level", str(level), "--lanes", "1", *which)
        verdict = _matrix(where, *chosen, deadline=deadline)
        verdict += _tests_real(where, "txnsim", "--level", str(level), deadline=deadline)
        with TxnsimServer(transaction_version=level) as server:
            return verdict + _transactions_command(where, server.bootstrap, deadline)

    name = f"clients and tools, txnsim at transaction.version {level}"
    return Part(name, 2 if which else 7 if level == LEVELS[-1] else 5, ask, cores=WAITS)


def kafka_at(level: int) -> Part:
    """The same against a real Apache Kafka, and what our own client and ``txns`` do there."""

    def ask(deadline: Deadline) -> PartOutcome:
        with ApacheKafka(transaction_version=level, properties=PROPERTIES) as kafka:
            where = f"Kafka, transaction.version {level}"
            there = ("--bootstrap", kafka.bootstrap, "--level", str(level), "--lanes", "1")
            verdict = _matrix(where, *there, "--client", *STOCK_CLIENTS, deadline=deadline)
            verdict += _tests_real(where, "apache", "--level", str(level), deadline=deadline)
            # Last, as it leaves verification switched off.
            return verdict + _transactions_command(where, kafka.bootstrap, deadline)

    name = f"clients, tools and tests/real, Kafka at transaction.version {level}"
    return Part(name, 3, ask, cores=WAITS)


def older_kafka(deadline: Deadline) -> PartOutcome:
    """Our client and ``txns`` on the release before, beside its own tools; the same on ourselves as
    that release; and an abort on one that is older than every API that would describe transactions.
    """
    verdict = _tests_real(f"Kafka {OLDER}", "apache", release=OLDER, deadline=deadline)
    verdict += _tests_real(f"txnsim as {OLDER}", "txnsim", release=OLDER, deadline=deadline)
    command = [str(_PYTHON), "-m", "pytest", OLDEST_TEST, "-q", "-m", "real"]
    return verdict + judge_pytest("tests/real, Kafka 2.7", run(command, deadline=deadline))


def streams_killed_at(level: int) -> Part:
    """Kafka Streams on the simulator, killed at named points; its counts must stay exact."""

    def ask(deadline: Deadline) -> PartOutcome:
        module = "tests.clients.streams.kills"
        command = [str(_PYTHON), "-m", module, "--level", str(level), "--kills", str(KILLS[level])]
        return _client(f"kills of Kafka Streams at {level}", command, deadline)

    name = f"{KILLS[level]} kills of Kafka Streams, txnsim at transaction.version {level}"
    return Part(name, KILLS[level] / 8, ask, cores=WAITS)


def random_play(deadline: Deadline) -> PartOutcome:
    """The same random requests to a real broker and to ours, answer by answer, at every level."""
    command = [str(_PYTHON), "-m", "pytest", "tests/conformance/test_random_play.py", "-q"]
    finished = run([*command, "-m", "real"], deadline=deadline)
    return judge_pytest("random play, Kafka and txnsim", finished)


def metrics_and_rights(deadline: Deadline) -> PartOutcome:
    """Our metrics beside a real broker's JMX, through the same story; then which rights requests
    of transactions ask for, at a real StandardAuthorizer; then a fault proxy in front of a broker.
    """
    tests = (
        "tests/real/test_metrics.py",
        "tests/conformance/test_rights.py",
        "tests/real/test_proxy.py",
    )
    command = [str(_PYTHON), "-m", "pytest", *tests, "-q", "-m", "real"]
    # With everything else beside it, the start of a broker alone may take a minute.
    finished = run([*command, "-o", "faulthandler_timeout=600"], deadline=deadline)
    return judge_pytest("metrics, rights and the proxy, Kafka and txnsim", finished)


def stories_told_twice(deadline: Deadline) -> PartOutcome:
    """Some stories on three real brokers behind the proxy and on the simulator: equal verdicts. All
    of them, on more releases, are played by ``make stage``.
    """
    command = [str(_PYTHON), "-m", "pytest", "tests/real/test_stories_told_twice.py", "-q"]
    finished = run([*command, "-m", "real", "-o", "faulthandler_timeout=900"], deadline=deadline)
    return judge_pytest("stories, Kafka and txnsim", finished)


def disks(deadline: Deadline) -> PartOutcome:
    """Disks of real brokers in the simulator, its records on the disk of a real broker, and what an
    operator finds on the disks of three.
    """
    tests = (
        "tests/real/test_loaded_disks.py",
        "tests/real/test_written_replica.py",
        "tests/real/test_operators_story.py",
    )
    command = [str(_PYTHON), "-m", "pytest", *tests, "-q", "-m", "real"]
    # The first one may have to make them.
    finished = run([*command, "-o", "faulthandler_timeout=600"], deadline=deadline)
    return judge_pytest("disks of Kafka and of txnsim", finished)


def pipeline(deadline: Deadline) -> PartOutcome:
    """The pipeline on Spark: on log directories of a real Kafka with recorded truth, on streams and
    traces, in this machine's cores and on a standalone master with two workers.
    """
    install = [str(_PYTHON), "-m", "pip", "install", "--quiet", "--group", "stores"]
    installed = judge_step("install an S3 server", run(install, deadline=deadline))
    if installed.failed:
        return installed
    command = [str(_PYTHON), "-m", "pytest", "tests/pipeline", "-q"]
    # What takes Spark minutes, such as a job per damaged directory, is asked for by `-m slow`.
    command += ["-m", "spark and not slow"]
    corpus = [str(_PYTHON), "-m", "tests.pipeline.corpus.make"]
    notebook = [str(_PYTHON), "-m", "pip", "install", "--quiet", "--group", "notebook"]
    installed = judge_step("pipeline on Spark: Jupyter", run(notebook, deadline=deadline))
    if installed.failed:
        return installed
    with ThreadPoolExecutor(1) as beside:
        # Its brokers mostly wait, so other tests run meanwhile; those that read it come last.
        making = beside.submit(run, corpus, deadline=deadline)
        # With everything else beside it, Spark and the brokers take their time to start.
        finished = run([*command, "-o", "faulthandler_timeout=900"], deadline=deadline)
        made = judge_step("pipeline on Spark: the corpus", making.result())
    verdict = judge_pytest("pipeline on Spark", finished)
    return verdict + made if made.failed else verdict


def image(deadline: Deadline) -> PartOutcome:
    """The container image: built without an engine, then a client, its health check, SIGTERM, a
    read-only root and an arbitrary user.
    """
    missing = _with_testcontainers(deadline)
    if missing.failed:
        return missing
    command = [str(_PYTHON), "-m", "pytest", "tests/image", "-q", "-m", "image"]
    # The first one makes a Debian; all of CI may run beside it.
    finished = run([*command, "-o", "faulthandler_timeout=900"], deadline=deadline)
    return judge_pytest("container image", finished)


def testcontainers(deadline: Deadline) -> PartOutcome:
    """The classes for Testcontainers in four languages; an engine of our own runs containers."""
    missing = _with_testcontainers(deadline)
    if missing.failed:
        return missing
    command = [str(_PYTHON), "-m", "pytest", "tests/testing/test_testcontainers.py", "-q"]
    finished = run([*command, "-m", "real"], deadline=deadline)
    return judge_pytest("Testcontainers", finished)


def fuzzing(deadline: Deadline) -> PartOutcome:
    """Two minutes of coverage-guided fuzzing, over all targets, from the corpus that is kept."""
    install = [str(_PYTHON), "-m", "pip", "install", "--quiet", "--group", "fuzz"]
    installed = run(install, deadline=deadline)
    if installed.code != 0:
        return judge_step("atheris", installed)
    command = [str(_PYTHON), "-m", "tests.fuzz", "--all", "--minutes", "2"]
    return judge_checks("fuzzing", *run(command, deadline=deadline))


def schemathesis(deadline: Deadline) -> PartOutcome:
    """Whatever the control port's OpenAPI document allows or forbids is asked of a server."""
    install = [str(_PYTHON), "-m", "pip", "install", "--quiet", "--group", "schemathesis"]
    installed = run(install, deadline=deadline)
    if installed.code != 0:
        return judge_step("Schemathesis", installed)
    command = [str(_PYTHON), "-m", "tests.http.schemathesis", "--examples", "5"]
    return judge_step("Schemathesis", run(command, deadline=deadline))


def late_produce(deadline: Deadline) -> PartOutcome:
    """Stock clients whose Produce arrives after their abort, with Kafka's defences and without."""
    command = [sys.executable, "-m", "tests.clients.late_produce"]
    finished = run(command, deadline=deadline)
    return judge_checks("late Produce, Kafka", finished.code, finished.output)


def scenario(deadline: Deadline) -> PartOutcome:
    """The simulator's scenario of the same story, with stock clients as its producer; and what one
    of them sees of a commit without a leader. ``make stage`` asks real brokers that.
    """
    # Side by side with everything else, an acknowledgement may take longer than a story's patience.
    patient = ("--delivery-timeout-ms", "6000", "--request-timeout-ms", "2500")
    java = shlex.join([*java_program("LateProduce"), *patient])
    go = shlex.join([str(go_program()), "late-produce"])  # waits 150 ms, and no option for it
    run_one = [str(_PYTHON), "-m", "txnsim.cli.main", "scenario", "run", "late-produce-after-abort"]
    verdict = PartOutcome(0, 0)
    for name, options in (("Java", ("--program", java)), ("Go", ("--armed", "--program", go))):
        finished = run([*run_one, "--quiet", *options], deadline=deadline)
        verdict += judge_step(f"scenario played by {name}", finished)
    leaderless = [str(_PYTHON), "-m", "tests.real.leaderless", "txnsim-4.3"]
    return verdict + judge_step("commit without a leader", run(leaderless, deadline=deadline))


def helpers(deadline: Deadline) -> PartOutcome:
    """The helpers for tests in Go, Node.js and Java, with a client library of each language."""
    finished = run([sys.executable, "-m", "tests.helpers.run"], deadline=deadline)
    return judge_checks("helpers", finished.code, finished.output)


def audit(deadline: Deadline) -> PartOutcome:
    """Licences, bounds and known vulnerabilities of what is installed."""
    finished = run([str(_PYTHON), "-m", "tests.ci.audit"], deadline=deadline)
    said = "\n".join(line for line in finished.output.splitlines() if line.startswith("OPEN "))
    # What could not be asked is told, also where all else is well.
    return judge_checks("audit", finished.code, finished.output) + PartOutcome(0, 0, said)


def soak(deadline: Deadline) -> PartOutcome:
    """Two minutes of four clients, a chain and the raw generator while brokers die, leaders move
    and clocks jump: exactly once, and flat.
    """
    command = [str(_PYTHON), "-m", "tests.soak", "--minutes", "2", "--rate", "300"]
    finished = run(command, deadline=deadline)
    return judge_checks("soak", finished.code, finished.output)


MINUTES: Final = 40
"""All of CI, on a quiet machine with two cores."""

CORES: Final = 2.0
"""What all parts that run may keep busy together."""
WAITS: Final = 0.5
"""Cores of a part with clients and brokers, of which each mostly waits: for time-outs, rebalances,
restarts. Measured in CPU seconds of seconds: the Java client at the simulator 15.5 of 31.6, at a
real broker 26.7 of 104; seven kills 39 of 91; metrics of a real broker 18.6 of 35.
"""

PROGRAMS: Final = Part("toolchains", 4, toolchains, needs_programs=False)
"""What the parts wait for that need programs."""

PARTS_FIRST: Final = (Part("make test", 6, make_test, cores=CORES, needs_programs=False),)
"""One after the other: the rest stands on them, and the first one uses every core."""

PARTS_TOGETHER: Final = (
    PROGRAMS,
    Part("pipeline on Spark", 8, pipeline, needs_programs=False),
    *(txnsim_at(level) for level in reversed(LEVELS) if level != AS_BELOW),
    Part("repeated at other levels and seeds", 5, repeated, needs_programs=False),
    Part("image of the container", 3.5, image, needs_programs=False),
    *(kafka_at(level) for level in reversed(LEVELS)),
    Part("fuzzing", 3, fuzzing, needs_programs=False),
    Part("page", 3, page, needs_programs=False),
    Part("disks of Kafka, loaded and written", 3, disks),
    Part("stories told twice, Kafka and txnsim", 3, stories_told_twice, cores=WAITS),
    *(streams_killed_at(level) for level in (0, 2, 1)),
    Part(f"tests/real, Kafka {OLDER} and 2.7", 2.5, older_kafka, cores=WAITS),
    Part("soak", 2.5, soak),
    txnsim_at(AS_BELOW),
    Part("random play, Kafka and txnsim", 2.5, random_play),
    Part("Schemathesis on the control port", 2.5, schemathesis, needs_programs=False),
    Part("metrics, rights and the proxy, Kafka and txnsim", 2, metrics_and_rights, cores=WAITS),
    Part("helpers for tests in Go, Node.js and Java", 2, helpers),
    Part("Testcontainers in four languages", 1.5, testcontainers),
    Part("late Produce of stock clients, Kafka", 1.5, late_produce, cores=WAITS),
    Part("wheel in an empty directory", 1, wheel, needs_programs=False),
    Part("stories of stock clients, txnsim", 1, scenario, cores=WAITS),
    Part("audit of dependencies", 0.5, audit, needs_programs=False),
)
"""Side by side, those that take longest first."""


def _with_testcontainers(deadline: Deadline) -> PartOutcome:
    """The library for Python, installed."""
    install = [str(_PYTHON), "-m", "pip", "install", "--quiet", "--group", "testcontainers"]
    return judge_step("install testcontainers", run(install, deadline=deadline))


def _matrix(where: str, *options: str, deadline: Deadline) -> PartOutcome:
    command = [sys.executable, "-m", "tests.clients.matrix.run", *options]
    return _client(f"clients, {where}", command, deadline)


def _transactions_command(where: str, bootstrap: str, deadline: Deadline) -> PartOutcome:
    module = "tests.clients.kafka_tools.transactions_command"
    partitions = ("haunted-house:0", "haunted-tower:0")
    command = [sys.executable, "-m", module, bootstrap, *partitions, "--make-hang"]
    return _client(f"TransactionsCommand, {where}", command, deadline)


def _tests_real(
    where: str, target: str, *options: str, release: str = NEWEST, deadline: Deadline
) -> PartOutcome:
    """Those of ``REAL_TESTS`` that need Java for this target: for ourselves, what is compared with
    Kafka's own tool; the others are part of ``make test``.
    """
    command = [str(_PYTHON), "-m", "pytest", *REAL_TESTS, "-q", "-m", "real"]
    which = ["--target", target, "--release", release, *options]
    return judge_pytest(f"tests/real, {where}", run([*command, *which], deadline=deadline))


def _client(name: str, command: list[str], deadline: Deadline) -> PartOutcome:
    finished = run(command, deadline=deadline)
    return judge_checks(name, finished.code, finished.output)
