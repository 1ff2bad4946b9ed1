"""The parts of CI: each one a question to the product as users meet it, each one a ``PartOutcome``.

The gate (``.ci/run``) decides on a change. It asks what is certain: no part of it draws anything or
fails because a machine is slow. ``make nightly`` asks all else, once before an issue is called
resolved; what it finds becomes a test of the gate.

To add a part, write a function that takes a ``Deadline`` to ``gate.py`` or ``nightly.py``, and a
``Part`` below: in ``GATE`` only if it passes 20 times in a row under a load of 8
(``python -m tests.ci.patience``) and the gate keeps its minutes, else in ``NIGHTLY``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tests.ci import gate, nightly
from tests.ci.nightly import AS_BELOW, KILLS, LEVELS, OLDER
from tests.ci.process import Deadline, PartOutcome


class Part(NamedTuple):
    """A part of a run: a question to the repository, with its expected duration."""

    name: str
    minutes: float
    """What it may take on a quiet machine with two cores, beside other parts."""
    ask: Callable[[Deadline], PartOutcome]
    cores: float = 1.0
    """Cores that the part keeps busy on average. A part that waits for the clock leaves room."""
    needs_programs: bool = True
    """Whether the part waits until the client programs are built."""
    makes_programs: bool = False


class CiPlan(NamedTuple):
    """The parts of one run."""

    name: str
    minutes: float
    """The budget of all parts, on a quiet machine with two cores."""
    minutes_max: float
    """When running parts are stopped. A loaded machine may take longer than the budget."""
    serial_parts: tuple[Part, ...]
    """Parts that run one by one, because the others depend on them or they need the machine for
    themselves.
    """
    parallel_parts: tuple[Part, ...]
    """Parts that run side by side, the longest first."""

    @property
    def parts(self) -> tuple[Part, ...]:
        return (*self.serial_parts, *self.parallel_parts)


CORES: Final = 2.0
"""What all parts that run may keep busy together."""
WAITS: Final = 0.5
"""Cores of a part with clients and brokers, of which each mostly waits: for time-outs, rebalances,
restarts. Measured in CPU seconds of seconds: the Java client at the simulator 15.5 of 31.6, at a
real broker 26.7 of 104; seven kills 39 of 91; metrics of a real broker 18.6 of 35.
"""

GATE: Final = CiPlan(
    "gate",
    minutes=20,
    minutes_max=85,
    serial_parts=(Part("make test", 4, gate.make_test, cores=CORES),),
    parallel_parts=(
        Part("costly tests", 3, gate.costly, cores=CORES, needs_programs=False),
        Part("Spark", 5, gate.spark, needs_programs=False),
        Part("programs of clients", 3, gate.programs, needs_programs=False, makes_programs=True),
        Part("page", 4, gate.page, needs_programs=False),
        Part("a client per language", 2.5, gate.clients, cores=WAITS),
        Part("wheel in an empty directory", 1, gate.wheel, needs_programs=False),
    ),
)

NIGHTLY: Final = CiPlan(
    "nightly",
    minutes=145,
    minutes_max=480,
    serial_parts=(
        Part("make test, drawn, with coverage", 8, nightly.make_test, cores=CORES),
        Part("journeys of new users", 15, nightly.journeys, cores=CORES),
    ),
    parallel_parts=(
        Part("toolchains", 4, nightly.toolchains, needs_programs=False, makes_programs=True),
        Part("stage", 42, nightly.stage),
        Part("suites of Apache Kafka, txnsim", 40, nightly.suites_of_kafka, cores=WAITS),
        Part("suites of client libraries, txnsim", 45, nightly.suites_of_clients, cores=WAITS),
        Part(
            "pipeline on Spark and Kafka's directories",
            40,
            nightly.spark_and_kafka,
            needs_programs=False,
        ),
        Part("mutants of rules and cores", 30, nightly.mutants, needs_programs=False),
        *(
            Part(
                f"clients and tools, txnsim at transaction.version {transaction_version}",
                {0: 5, AS_BELOW: 2, 2: 7}[transaction_version],
                nightly.txnsim_at(transaction_version),
                cores=WAITS,
            )
            for transaction_version in reversed(LEVELS)
        ),
        Part(
            "repeated at other levels and seeds",
            5,
            nightly.other_levels_and_seeds,
            needs_programs=False,
        ),
        Part(
            "lessons and the site in a browser", 8, nightly.lessons_and_site, needs_programs=False
        ),
        Part("image of the container", 3.5, nightly.image, needs_programs=False),
        *(
            Part(
                f"clients, tools and tests/real, Kafka at transaction.version {version}",
                3,
                nightly.kafka_at(version),
                cores=WAITS,
            )
            for version in reversed(LEVELS)
        ),
        Part("judges by definition", 3, nightly.judges, needs_programs=False),
        Part("fuzzing", 3, nightly.fuzzing, needs_programs=False),
        Part("disks of Kafka, loaded and written", 3, nightly.disks),
        Part("messages of clients", 1, nightly.messages_of_clients, needs_programs=False),
        Part(
            "stories on a real Kafka and on txnsim", 3, nightly.stories_on_real_brokers, cores=WAITS
        ),
        *(
            Part(
                f"{KILLS[level]} kills of Kafka Streams, txnsim at transaction.version {level}",
                KILLS[level] / 8,
                nightly.streams_killed_at(level),
                cores=WAITS,
            )
            for level in (0, 2, 1)
        ),
        Part(
            f"tests/real, Kafka {OLDER}, 2.7 and two releases",
            4.0,
            nightly.older_kafka,
            cores=WAITS,
        ),
        Part("soak", 2.5, nightly.soak),
        Part("share consumers", 12, nightly.share_consumers),
        Part("streams groups", 12, nightly.streams_groups, cores=WAITS),
        Part("random play, Kafka and txnsim", 2.5, nightly.random_play),
        Part("Schemathesis on the control port", 2.5, nightly.schemathesis, needs_programs=False),
        Part(
            "metrics, rights and the proxy, Kafka and txnsim",
            2,
            nightly.metrics_and_rights,
            cores=WAITS,
        ),
        Part("helpers for tests in Go, Node.js and Java", 2, nightly.helpers),
        Part("Testcontainers in five languages", 1.5, nightly.testcontainers),
        Part("late Produce of stock clients, Kafka", 1.5, nightly.late_produce, cores=WAITS),
        Part("stories of stock clients, txnsim", 1, nightly.stories_of_clients, cores=WAITS),
        Part("audit of dependencies", 0.5, nightly.audit, needs_programs=False),
    ),
)

PLANS: Final = (GATE, NIGHTLY)
