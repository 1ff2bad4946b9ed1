"""The parts of docs/clients.md, from the stored results and the roster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tests.clients.matrix.client import CHECKS, CORE, NEWEST_ONLY, Client
from tests.clients.matrix.questions import LEVELS, NEWEST
from tests.clients.matrix.results import StoredClient, load, rank
from tests.clients.matrix.rosters import clients
from tests.clients.matrix.verdicts import CheckVerdict

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""Head and rows."""

YOURS: Final = """\
Which client libraries were tried, and how to try yours. Three steps ask for ever more of your
client.

**One request.** `txnsim serve --log-level debug` prints each request with its version, and what
was answered. A request that can't be read is named with the byte at which it went wrong. [Without
a library](first-client.md#without-a-library) has three of them as bytes.

**A record, a commit.** [first-client.md](first-client.md) is the first program;
[faults.md](faults.md) is what you can break under it.

**The whole list.** A [program](#what-a-program-is) of yours takes names of checks and prints
`PASS` or `FAIL` for each. This plays it at each
`transaction.version`, with a cluster of its own for each:

```
python -m tests.clients.matrix.run --program './my-client'
```

What comes back is a row of the table below, a line for each check:

```
PASS yours@2 produce (0.9 s)
PASS yours@2 commit (1.4 s)
FAIL yours@2 fence: the second producer was not told
```

`--target apache` asks the same of a real Kafka: a check that fails there as well is wrong about
Kafka."""

INTRODUCTION: Final = """\
Client libraries, unmodified, against three simulated brokers over TCP. Each has a program under
[tests/clients](../tests/clients) that goes through one list of checks; the same programs pass
against a real Apache Kafka 4.3.1 (that of @confluentinc/kafka-javascript against 4.4.0), so that a
check which is wrong about Kafka fails as well.

✓ passed at every level of `transaction.version` (0, 1 and 2), or at those that are named; *limit*:
the library can't do it on any cluster, and [below](#limits-of-the-libraries) is why. The list asks
about [share groups](groups.md#share-groups) and [streams groups](groups.md#streams-groups) nowhere:
they have plays of their own. Java's share consumer sees what it sees of a real 4.4.0; it,
librdkafka's and franz-go's keep all records under kills
([tests/clients/share](../tests/clients/share)). Kafka Streams is killed with either
`group.protocol` (below)."""

DEMANDS: Final[Mapping[str, str]] = {
    "produce": "Records with keys, headers and timestamps, acks from all replicas, through every "
    "compression that the library has; read back equal, offsets in order.",
    "idempotent": "Several batches into several partitions; offsets follow one another, each "
    "record is there once.",
    "commit": "A transaction over partitions on all brokers; read_committed shows nothing of it "
    "before, all of it after; the same producer's next one.",
    "abort": "Aborted records never reach read_committed, do reach read_uncommitted; the next "
    "transaction is seen.",
    "read-committed": "An open transaction holds back what others wrote behind it, until it ends.",
    "fence": "A second producer with the transactional id fences the first, which gets the "
    "library's own error; the second goes on.",
    "timeout": "The cluster aborts a transaction that outlasts `transaction.timeout.ms`; its "
    "producer learns it at its commit; a new one with the id goes on.",
    "transform": "Consume, transform, produce, with the positions in the transaction; one is "
    "aborted and done again. Each input has one output; positions of the aborted one don't move.",
    "rebalance": "A second member takes partitions in the middle of a transaction of the first, "
    "whose commit belongs to its generation or is refused. Each input has one output.",
    "admin": "KIP-664 as far as the library has it: list and describe transactions, describe "
    "producers, abort a transaction, fence producers.",
    "sasl": "Commit, abort and read over SASL_SSL with each mechanism that the library has; a "
    "wrong password is refused.",
    "tls": "The same over SSL with a certificate of the client's own.",
}
"""What each check asks of library and cluster."""

RUNNING: Final = """\
```
python -m tests.clients.matrix.run                       # every client, every level
python -m tests.clients.matrix.run --client aiokafka --level 2 --check fence timeout
python -m tests.clients.matrix.run --target apache       # the same of a real Kafka
python -m tests.clients.matrix.run --bootstrap localhost:9092 --level 2
python -m tests.clients.matrix.run --write               # keep the results, make this page
```

A program is built when it is first asked, with Maven, Go, npm or cargo; what that leaves lies in
the ignored `.cache/`. A toolchain that is missing is a failure, and so is a check that a program
does not report."""

PROGRAM: Final = """\
A program takes names of checks (none: all that it has) and finds the cluster in its environment:

| Variable | What it says |
| --- | --- |
| `TXNSIM_BOOTSTRAP` | brokers in clear, `host:port,host:port,host:port`; or one alone |
| `TXNSIM_TRANSACTION_VERSION` | the finalized level: 0, 1 or 2 |
| `TXNSIM_RUN` | what all topics, groups and transactional ids of this run begin with |
| `TXNSIM_SASL_BOOTSTRAP`, `TXNSIM_TLS_BOOTSTRAP` | for `sasl` and `tls`: SASL_SSL, SSL |
| `TXNSIM_SECURITY_DIR` | certificates and keys; users are those of [security.md](security.md) |

It prints `PASS check` or `FAIL check: reason` per check and at last `N passed, M failed`; its exit
status is 1 if a check failed, 2 if it was asked for what it does not have. It waits for conditions,
never for time, and adds no retries that hide an error. The roster
([tests/clients/matrix/roster](../tests/clients/matrix/roster)) says how it is built."""


def matrix() -> Table:
    """A row per client, a column per check."""
    stored_clients = load()
    rows = []
    for client in sorted(clients(), key=lambda client: (client.language, client.name)):
        stored_client = stored_clients.get(client.name)
        cells = tuple(_cell(stored_client, check, _levels(check)) for check in CHECKS)
        rows.append((client.language, client.name, client.version, *cells))
    return ("Language", "Client", "Version", *(f"`{check}`" for check in CHECKS)), rows


def demands() -> Table:
    return ("Check", "Levels", "What it demands"), [
        (f"`{check}`", _join_levels(_levels(check)), DEMANDS[check]) for check in CHECKS
    ]


def limits() -> Table:
    """What libraries can't do, and why."""
    return ("Client", "Check", "Why not"), [
        (client.name, _limit_cell(key), reason)
        for client in clients()
        for key, reason in client.limits.items()
    ]


def further_checks() -> Table:
    """Checks beyond the list, which a program has for its library alone."""
    return ("Client", "Levels", "Checks"), list(_further(clients(), load()))


def _further(
    roster: Sequence[Client], stored_clients: Mapping[str, StoredClient]
) -> Iterator[tuple[str, ...]]:
    for client in roster:
        names = sorted((check for check in client.checks if check not in CHECKS), key=rank)
        stored_client = stored_clients.get(client.name)
        for is_everywhere, transaction_versions in ((True, LEVELS), (False, (NEWEST,))):
            client_checks = [name for name in names if (name in client.everywhere) is is_everywhere]
            if client_checks:
                cells = ", ".join(
                    f"`{check_name}` {_cell(stored_client, check_name, transaction_versions)}"
                    for check_name in client_checks
                )
                yield client.name, _join_levels(transaction_versions), cells


def _cell(
    stored_client: StoredClient | None, check_name: str, transaction_versions: Sequence[int]
) -> str:
    if stored_client is None:
        return "not run"
    verdicts = stored_client.verdicts.get(check_name, {})
    by_sign: dict[str, list[int]] = {}
    for transaction_version in transaction_versions:
        if transaction_version in verdicts:
            by_sign.setdefault(_SIGNS[verdicts[transaction_version]], []).append(
                transaction_version
            )
    if not by_sign:
        return ""
    if len(by_sign) == 1 and len(verdicts) == len(transaction_versions):
        return next(iter(by_sign))
    return " ".join(f"{sign} {_join_levels(sign_levels)}" for sign, sign_levels in by_sign.items())


_SIGNS: Final = {
    CheckVerdict.PASSED: "✓",
    CheckVerdict.FAILED: "✗",
    CheckVerdict.LIMIT: "*limit*",
    CheckVerdict.MISSING: "?",
}


def _levels(check_name: str) -> Sequence[int]:
    assert check_name in CORE or check_name in NEWEST_ONLY
    return LEVELS if check_name in CORE else (NEWEST,)


def _limit_cell(key: str) -> str:
    check_name, _, level = key.partition("@")
    return f"`{check_name}`" + (f" at {level}" if level else "")


def _join_levels(transaction_versions: Sequence[int]) -> str:
    return ", ".join(map(str, transaction_versions))
