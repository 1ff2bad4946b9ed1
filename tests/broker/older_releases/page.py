"""The parts of ``docs/releases.md``, made from the data of the releases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tests.broker.older_releases.history import ON_TRUNK, UNOBSERVED
from txnsim.api._transactions.add_partitions_to_txn import API_KEY as ADD_PARTITIONS_TO_TXN
from txnsim.api._transactions.add_partitions_to_txn import BATCHED_FROM
from txnsim.api.registry import HANDLERS, shipped_apis
from txnsim.releases import REFERENCE, RELEASES, Release
from txnsim.releases.interbroker_versions import EXCHANGES as EVERY
from txnsim.releases.interbroker_versions import InterbrokerRequest
from txnsim.releases.rules import Rules

Row = tuple[str, ...]

INTRODUCTION: Final = f"""\
`txnsim serve --as-version 3.9` behaves as that release of Apache Kafka, `--as-version \
{REFERENCE.name},1=3.9` as a cluster
whose broker 1 is older, in the middle of a rolling upgrade. {REFERENCE.name} is the default. \
A program starts a broker again as
another release with `SimCluster.start_broker(broker_id, as_version="{REFERENCE.name}")`, unless \
the cluster's features are at levels
that the release does not know: a real broker is not let in then either.

What a release is, is data (`sim/txnsim/releases/`): the highest version of each API, recorded \
from the jar of its clients; its
features; and its rules, one switch for each behaviour that differs. Lowest versions are those of \
{REFERENCE.name} everywhere: no
client needs the others. Of each line the newest patch release is played."""

TRUNK: Final = """\
`--as-version 4.5` is Apache Kafka's trunk, as it was read up to the end of November 2026. No jar of
it exists: nothing here has been compared with a broker. Its feature levels are those of 4.4.

**Request header v3** (KIP-1313, KAFKA-20923 to KAFKA-20926) has one tagged field more, tag 0: the
client instance id, a UUID that a client draws when it is made. OffsetDelete 1,
GetTelemetrySubscriptions 1 and PushTelemetry 1 have it. OffsetDelete 1 is version 0 in the flexible
encoding; in the two others the id has left the request's body, and what they answer is taken to be
as in version 0.

| A request with header v3 has | Is |
| --- | --- |
| an id, the first on its connection | the connection's id from now on |
| the same id, or none, later | handled |
| none, and no request before had one | INVALID_REQUEST |
| another id than before, or the reserved 1 | INVALID_REQUEST; the connection keeps its id |
| no client id | as if it had the first client id of the connection |

An id of zeros is none. Requests with an older header, SaslHandshake always, say nothing of it. The
id is in the trace (`instance`), in the request log and in `GET /api/v1/connections`, and a fault
rule strikes the requests of one client instance (`client_instance_id`)."""

STALE_COORDINATORS: Final = """\
**A stale coordinator** (KAFKA-21181). A broker that has lost a partition of `__transaction_state`
unloads it a moment later. Until then it answers from memory. A commit under transactions v2 that
still goes there is refused, though the transaction is open at the next coordinator. What each
proposed fix leaves, (a) `coordinator_checks_leadership` and (b) `empty_commits_are_ended`:

| The former coordinator | 4.4 | (a) | (b) |
| --- | --- | --- | --- |
| has yet to unload; the one before is complete | INVALID_TXN_STATE | committed | committed |
| has yet to unload; the one before is prepared | PRODUCER_FENCED | committed | PRODUCER_FENCED |
| does not know of the move, for 45 s | INVALID_TXN_STATE | INVALID_TXN_STATE | committed |

[The test](../tests/broker/older_releases/test_stale_coordinators.py) plays each."""

ON_TRUNK_INTRODUCTION: Final = """\
What trunk has merged about transactions, groups and share groups since the branch of 4.4, and what
is under review there. A switch without a release is turned by hand (`rules`)."""

EXCHANGES: Final = """\
Brokers of different releases ask each other in versions that both know. Two switches below are
exceptions. A follower goes by the level of the cluster's `metadata.version`, here by
that of a new cluster of the release. All others ask their peer first what it knows.

- **A leader of 3.6 whose coordinator is older takes no transactional record**: NETWORK_EXCEPTION
  (`verification_follows_peer_version`, KAFKA-16692). It does not ask, sends AddPartitionsToTxn
  4, and its connection is closed. So a rolling upgrade from 2.8 to 3.6 stands still for
  transactions until the coordinators are upgraded. Leaders from 3.9 on find out, and take
  everything for verified.
- A coordinator of 3.8 or later refuses a partition that is not in the transaction with an error
  that a leader of 3.6 does not know. The producer gets UNKNOWN_SERVER_ERROR.
- A leader older than 4.2 gets no transaction version with a marker.
- A broker forwards what the controller decides in the version of the client's request. So it
  lists these APIs only in versions that the controller knows, too. The controller is on the node
  of the first broker.
- 2.8 beside 4.0 or later is played, too. No real cluster can be so: 4.0 has no ZooKeeper.

[tests/real/two_releases.py](../tests/real/two_releases.py) plays pairs of releases on real
brokers. What they did is kept beside it, and compared with the simulator."""

RULES: Final = f"""\
● is what {REFERENCE.name} does, ○ what was done before. Where {REFERENCE.name} is ○, ● is what \
it has unlearnt or what no release
up to {REFERENCE.patch_release} does. The last column says what ○ means. A scenario that shows a \
bug turns one switch by hand
(`ClusterOptions.rules`), in any release."""

NOT_HERE: Final = """\
Other changes between these releases that concern transactions, and why there is no switch for \
them."""


def versions() -> tuple[Row, Iterator[Row]]:
    """The table of the versions of each API in each release: its head and its rows."""
    tables = {release_name: shipped_apis(release) for release_name, release in RELEASES.items()}

    def rows() -> Iterator[Row]:
        yield ("", "*played as*", *(release.patch_release for release in RELEASES.values()))
        for key, handler in sorted(HANDLERS.items()):
            if any(key in table.accepted for table in tables.values()):
                ranges = (table.accepted.get(key) for table in tables.values())
                yield (str(key), handler.name, *(_range(version_range) for version_range in ranges))

    return ("Key", "API", *map(str, RELEASES.values())), rows()


def exchanges() -> tuple[Row, Iterator[Row]]:
    """The table of the requests between brokers in each release: its head and its rows."""

    def version_source(exchange: InterbrokerRequest) -> str:
        version_decider = "`metadata.version`" if exchange.levels else "the peer"
        return f"{version_decider} (`{exchange.unless}`)" if exchange.unless else version_decider

    def version(exchange: InterbrokerRequest, release: Release) -> str:
        if exchange.levels:
            metadata_version_range = release.features.get("metadata.version")
            return str(
                exchange.at_level(
                    metadata_version_range.new_cluster_level if metadata_version_range else 0
                )
            )
        highest = release.highest_version(exchange.api_key)
        is_between_brokers = exchange.api_key != ADD_PARTITIONS_TO_TXN or highest >= BATCHED_FROM
        return str(highest) if highest >= 0 and is_between_brokers else "–"

    return (
        ("Request", "Its version goes by", *map(str, RELEASES.values())),
        (
            (
                exchange.what,
                version_source(exchange),
                *(version(exchange, release) for release in RELEASES.values()),
            )
            for exchange in EVERY
        ),
    )


def features() -> tuple[Row, Iterator[Row]]:
    """The table of the levels of each feature in each release: its head and its rows."""
    names = sorted(
        {feature_name for release in RELEASES.values() for feature_name in release.features}
    )
    return (
        ("Feature", *map(str, RELEASES.values())),
        (
            (f"`{name}`", *(_levels(release, name) for release in RELEASES.values()))
            for name in names
        ),
    )


def rules() -> tuple[Row, Iterator[Row]]:
    """The table of the rules of each release: its head and its rows."""
    return (
        ("Switch and what it does", "Ticket", "Since", *map(str, RELEASES.values()), "○"),
        (
            (
                f"`{field_name}`: {rule.behaviour_after}",
                rule.ticket,
                rule.came(REFERENCE.patch_release),
                *(
                    "●" if getattr(release.rules, field_name) else "○"
                    for release in RELEASES.values()
                ),
                rule.behaviour_before,
            )
            for field_name, rule in Rules.documentation().items()
        ),
    )


def on_trunk() -> tuple[Row, Iterable[Row]]:
    """The table of what Kafka's trunk has changed: its head and its rows."""
    return (
        ("Ticket", "Stands", "Change", "Here"),
        ((change.ticket, change.standing, change.change, change.here) for change in ON_TRUNK),
    )


def not_here() -> tuple[Row, Iterable[Row]]:
    """The table of the changes that have no switch here: its head and its rows."""
    return (
        ("Ticket", "Since", "Change", "Why it is not visible here"),
        ((change.ticket, change.since, change.change, change.why) for change in UNOBSERVED),
    )


def _range(version_range: tuple[int, int] | None) -> str:
    if version_range is None:
        return "–"
    lowest_version, highest_version = version_range
    return (
        str(lowest_version)
        if lowest_version == highest_version
        else f"{lowest_version}–{highest_version}"
    )


def _levels(release: Release, name: str) -> str:
    feature = release.features.get(name)
    if feature is None:
        return "–"
    return f"{feature.min_level}–{feature.max_level}, new: {feature.new_cluster_level}"
