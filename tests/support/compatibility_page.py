"""Which brokers and clients were asked, and what it came to: ``docs/compatibility.md``, by
``tests.docs``. It is made of two files of results: that of the conformance cases
(``tests.conformance.other_brokers``) and that of the exam (``tests.clients.exam_page``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from tests.clients.exam_drivers import DRIVERS
from tests.clients.exam_page import LETTERS, NOT_ASKED, QUESTIONS, LibraryResults, load
from tests.conformance.other_brokers import kept_rows
from txnsim_lab.exam.results import SituationOutcome

TITLE: Final = "Which brokers and clients do as Kafka does?"
INTRODUCTION: Final = """\
Brokers that speak Kafka's protocol, and client libraries, asked by the same programs that you can
run on yours. Each line has the version that was asked, the day, and the command that asks again.
How to put the result of yours in a README: [a badge](#a-badge)."""
BROKERS_INTRODUCTION: Final = """\
`txnsim conformance` plays cases that a real Apache Kafka has answered, field by field:
[conformance.md](conformance.md) says what counts, and which rules each broker breaks. What does not
apply (a case for several brokers, an API that the broker lacks) is left out of the per cent."""
BROKERS_HEAD: Final = ("Broker", "Version", "As Kafka", "Answers alike", "Asked again by", "Day")
BROKERS_CLOSING: Final = """\
Not asked: **tansu** 0.6.0 of crates.io (2026-11-30). By its source (`tansu-broker`,
`src/service/storage.rs`) it has InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn and
TxnOffsetCommit, and no EndTxn: a transaction can't be ended there.
`cargo install tansu --version 0.6.0 --debug --locked --features dynostore` had compiled 300 crates
when it was stopped after an hour, on two cores with other work beside it."""
CLIENTS_INTRODUCTION: Final = """\
`txnsim exam` asks what a library does when a transaction goes wrong: [exam.md](exam.md) says by
which laws. A miss is judged: a **bug** breaks what the library or the protocol promises, a
**choice** is the library's to make, and what is the **protocol**'s is no miss. Each miss stands in
[tests/clients/RESULTS.md](../tests/clients/RESULTS.md) with what a real Kafka said. Which calls
each library has at all: [clients.md](clients.md#what-each-library-passes)."""
CLIENTS_HEAD: Final = (
    "Client",
    "Version",
    "Speaks version",
    "Passed",
    "Bugs",
    "Choices",
    "Others",
    "Asked again by",
    "Day",
)
CLIENTS_CLOSING: Final = """\
*Speaks version*: the newest `transaction.version` whose requests it was seen to send. *Passed*: of
the situations that apply to it, at all levels of `transaction.version` at which it was asked.
*Bugs* and *choices* count situations, at whichever levels. *Others* are misses that are the
simulator's or the exam's, or that are not judged yet.

`python -m tests.clients.exam_drivers NAME` builds a driver in a checkout and prints its command,
which `txnsim exam run --driver` takes; `--json` into a file, and `python -m
tests.clients.exam_page FILE` puts it into this table."""
BADGE: Final = """\
## A badge

```console
$ txnsim exam run --driver ./my-driver --core --results exam.json
$ txnsim badge exam.json --svg badge.svg --shields badge.json
```

`--svg` writes a picture, with the extra `badge`. `--shields` writes the JSON that
[shields.io](https://shields.io/badges/endpoint-badge) draws. `txnsim conformance --results FILE`
gives the same for a broker. A run that was stopped says so on its badge and is never green; one in
which nothing applied has none.

In CI the exam, its report and both badges come from one step:
[helpers/ci/exam](../helpers/ci/exam/README.md), an action for GitHub and a template for GitLab."""

_LIBRARY_DRIVERS: Final = {
    "@confluentinc/kafka-javascript": "confluent-kafka-javascript",
    "@platformatic/kafka": "platformatic",
    "Sarama": "sarama",
}
"""Libraries whose driver has another name than they have."""


def broker_rows() -> Iterator[tuple[str, ...]]:
    """The table of brokers."""
    for row in kept_rows():
        asked_count = row.passed + row.differs
        command = f"python -m tests.conformance.other_brokers '{row.broker}'"
        if "'" in row.broker:
            command = f'python -m tests.conformance.other_brokers "{row.broker}"'
        alike_share = f"{row.passed} of {asked_count} ({100 * row.passed // asked_count} %)"
        yield row.broker, row.version, row.claims, alike_share, f"`{command}`", row.day


def client_rows() -> Iterator[tuple[str, ...]]:
    """The table of clients."""
    for library in load():
        letters = Counter(
            library.outcomes.get(situation.name, NOT_ASKED)[level] for situation, level in QUESTIONS
        )
        passed_count = letters[LETTERS[SituationOutcome.PASSED]]
        asked_count = passed_count + letters[LETTERS[SituationOutcome.MISSED]]
        verdicts = _missed_situations(library)
        other_count = sum(verdicts.values()) - verdicts["bug"] - verdicts["choice"]
        yield (
            library.library,
            library.version,
            str(library.speaks),
            f"{passed_count} of {asked_count} ({100 * passed_count // asked_count} %)",
            str(verdicts["bug"]),
            str(verdicts["choice"]),
            str(other_count),
            f"`python -m tests.clients.exam_drivers {driver_name(library)}`",
            library.day,
        )


def _missed_situations(library: LibraryResults) -> Counter[str]:
    """How many situations it misses, by whose fault that is; ``""`` where nobody has judged."""
    situations = dict.fromkeys(miss_id.partition("@")[0] for miss_id in library.misses)
    judgements = library.judged
    return Counter(judgements[name].verdict if name in judgements else "" for name in situations)


def driver_name(library: LibraryResults) -> str:
    """The name of its driver in ``tests.clients.exam_drivers``."""
    name = _LIBRARY_DRIVERS.get(library.library, library.library)
    return name if name in DRIVERS else f"{name}-{library.version}"
