"""What brokers answered to the cases, as a page: ``docs/conformance.md``, by ``tests.docs``."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill
from typing import Final

from tests.conformance.other_brokers import kept_rows

TITLE: Final = "Does your broker answer as Kafka does?"
INTRODUCTION: Final = """\
`txnsim conformance` asks a broker what a real Apache Kafka has been asked, over the wire, and
compares the answers: transactions, idempotent producers, records, groups, positions, topics.
You need neither its code nor a Java machine. Each difference stands beside Kafka's answer, with
the [rule](rules.md) that it breaks.

```console
$ txnsim conformance localhost:9092
```

In CI, with the results as JUnit XML, from the [wheel](in-ci.md#the-wheel), without an extra:

```
pip install "$TXNSIM_WHEEL"
txnsim conformance localhost:9092 --junit conformance.xml
```

From the image:

```
podman run --rm --network host --user "$(id -u)" -v "$PWD":/out --entrypoint python \\
    txnsim -m txnsim conformance localhost:9092 --junit /out/conformance.xml
```

The exit status is 0 where nothing differs, 1 where something does, and 2 where the cluster is
not meant for this.

## What it needs

- **One broker** that leads everything, and a cluster without topics of others.
  `--beside-others` plays the cases all the same.
- **Settings**: `txnsim conformance --needs` prints them, as lines of Kafka's
  `server.properties`; with `--release` those that a broker of that release has. They make timeouts
  short and rebalances immediate. With others, cases of timeouts and rebalances differ.
- **Rights**: everything, as a super user has it. `--command-config FILE` takes the client
  properties that Kafka's tools read, TLS and SASL included.

It works in topics, groups and transactional ids whose names begin with `txnsim-conformance-`.
At the end it deletes topics and groups, and ends open transactions. Kafka can't delete
transactional ids: they expire after `transactional.id.expiration.ms`. What could not be taken
away is listed.

## Which Kafka

`--release 3.9` says which Apache Kafka the broker claims to be; 4.4 unless given. Answers are
those that a real 4.4.0 and a real 3.9.2 gave. The level of `transaction.version` is the one
that the cluster has finalized: it is not changed.

A case is *passed*, *differs*, or does *not apply*: it needs several brokers or other settings,
changes what other clients see, or asks for a version that the broker does not offer. Versions
that the release offers and the broker does not are listed at the end. `--only
coordinator/end_txn` plays a file of cases, or one case. `--json` has each difference as
`request`, `answer`, `kafka`, `fields` and `rules`.

Faults are not played: a broker of yours stands behind [the proxy](proxy.md) for that.

## What came of it"""
HEAD: Final = (
    "Broker",
    "Version",
    "As Kafka",
    "`transaction.version`",
    "Passed",
    "Differ",
    "Do not apply",
    "Rules kept",
    "Rules broken",
    "Day",
)
CLOSING: Final = """\
Each field of an answer counts. Most of kfake's differences are fields of refusals that a client
hardly reads: a high watermark of 0 where Kafka says -1, null where it has an empty list.
librdkafka's mock (2.16.0) crashes in the cases of InitProducerId; the others then do not apply.
A broker that lacks an API keeps no promise about it, and breaks none: its cases do not apply.
kfake and the mock are made for tests of clients, and say so. `python -m
tests.conformance.other_brokers` makes the table. The cases are in
[sim/txnsim_lab/conformance/casebook](../sim/txnsim_lab/conformance/casebook/), and how they are
written in [CASES.md](../tests/conformance/CASES.md)."""
DIFFERENCES: Final = "Rules whose answer was another one, of those that differ:"


def rows() -> Iterator[tuple[str, ...]]:
    """The rows of the table of brokers."""
    for row in kept_rows():
        yield (
            row.broker,
            row.version,
            row.claims,
            str(row.transaction_version),
            str(row.passed),
            str(row.differs),
            str(row.not_applicable),
            str(row.kept),
            str(len(row.broken)),
            row.day,
        )


def broken_rules() -> Iterator[str]:
    """For each broker, a block with the ids of the rules that it breaks."""
    for row in kept_rows():
        if row.broken:
            rules_text = fill(" ".join(row.broken), 110, break_on_hyphens=False)
            yield f"{row.broker}:\n\n```\n{rules_text}\n```"
