"""What happened in a cluster, for the report of a failed test: its story in sentences, what
unfinished transactions wait for, the results of its fault rules.

It needs no web server: the pytest plugin shows the same report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from txnsim.http.messages import Fault
from txnsim.runtime.loop_turns import Pace, rest_where_due
from txnsim.runtime.trace import Event, Tracer
from txnsim.server.cluster import SimCluster
from txnsim.server.views.waiting_transactions import wait_reasons
from txnsim.text import printable
from txnsim.trace.story import story
from txnsim.txn.state import PREPARED_STATES, TransactionState

SENTENCES_MAX: Final = 40
EVENTS_TOLD_MAX: Final = 5_000
"""The story is written from this many of the newest events."""
LINE_CHARACTERS_MAX: Final = 160
RECORD: Final = (
    "what happened is shown once it is recorded: by the button of the page, by POST /api/v1/trace"
    ' with {"level": "brief"}, or from the start by --trace brief'
)
WAITING_MAX: Final = 20
"""Number of transactions whose waits are listed."""

POLLS: Final = frozenset(
    {"AllocateProducerIds", "BrokerHeartbeat", "Heartbeat", "ConsumerGroupHeartbeat"}
)
"""APIs of requests that are sent regardless of what a test does; Fetch by followers is another."""


def told_events(tracer: Tracer, *, first_event: int, onlooker: str) -> list[Event]:
    """The newest events, without periodic requests."""
    first_told_index = max(first_event, len(tracer) - EVENTS_TOLD_MAX, tracer.first_index)
    return [event for event in tracer.events(first_told_index) if not _is_noise(event, onlooker)]


def _is_noise(event: Event, onlooker: str) -> bool:
    if not isinstance(event.d, Mapping):
        return False
    if event.k == "txn.load":
        return not event.d.get("transactions")
    if not event.k.startswith("msg."):
        return False
    peer, api_name = event.d.get("peer"), event.d.get("api")
    is_follower = api_name == "Fetch" and str(peer).startswith("broker/")
    return peer == onlooker or api_name in POLLS or is_follower


def story_text(events: Iterable[Event], nodes: Sequence[str]) -> str:
    """The last sentences of the story."""
    sentences = story(events, nodes)
    sentence_lines = [
        in_one_line(f"{sentence.at_ms:>7} ms  {sentence.who}: {sentence.text}")
        for sentence in sentences[-SENTENCES_MAX:]
    ]
    left_out_count = len(sentences) - len(sentence_lines)
    return "\n".join(
        [f"… {left_out_count} sentences before", *sentence_lines]
        if left_out_count
        else sentence_lines
    )


async def waits_text(cluster: SimCluster) -> str:
    """What each unfinished transaction waits for."""
    pace = Pace(cluster.environment.tasks.turns, cluster.environment.clock.stopwatch_ns)
    unfinished_ids: list[str] = []
    for broker in cluster.brokers.values():
        for owned_partition in broker.coordinator.owned_partitions():
            unfinished_ids += [
                transactional_id
                for transactional_id, txn in owned_partition.entries.items()
                if txn.state is TransactionState.ONGOING or txn.state in PREPARED_STATES
            ]
            await rest_where_due(pace, len(owned_partition.entries))
    return "\n".join(
        printable(f"{transactional_id}: {wait_reason}")
        for transactional_id in sorted(unfinished_ids)[:WAITING_MAX]
        for wait_reason in wait_reasons(cluster, transactional_id)
    )


def rules_text(fault_states: Iterable[Fault]) -> str:
    """A line for each rule."""
    return "\n".join(
        in_one_line(
            f"{state.rule.id}: {state.matched} matched, {state.struck} struck, {state.held} held, "
            f"{state.released} released{'' if state.in_force else ', disarmed'}"
            f"{'' if state.failure is None else f', failed ({state.failure})'}: "
            f"{msgspec.json.encode(state.rule).decode()}"
        )
        for state in fault_states
    )


def in_one_line(text: str) -> str:
    """Printable text in one line of limited length, because names may contain anything."""
    text = printable(text)
    return text if len(text) <= LINE_CHARACTERS_MAX else f"{text[:LINE_CHARACTERS_MAX]}…"


def cluster_text(cluster: SimCluster) -> str:
    """Brokers, transactional ids and topics in one line."""
    image = cluster.metadata.image
    topic_names = sorted(
        topic_name for topic_name, topic in image.topics.items() if not topic.is_internal
    )
    transactional_id_count = sum(
        len(owned_partition.entries)
        for broker in cluster.brokers.values()
        for owned_partition in broker.coordinator.owned_partitions()
    )
    running_count, registered_count = len(image.alive_brokers()), len(image.brokers)
    return in_one_line(
        f"{running_count} of {registered_count} brokers up at {cluster.bootstrap}; transactional "
        f"ids: {transactional_id_count}; topics: {', '.join(topic_names) or 'none'}"
    )


async def report(
    cluster: SimCluster, fault_states: Iterable[Fault], *, first_event: int = 0
) -> str:
    """The report as text: cluster, story, waiting transactions and faults."""
    tracer = cluster.environment.tracer
    titled_sections = [
        ("the cluster", cluster_text(cluster)),
        (
            "what happened",
            story_text(told_events(tracer, first_event=first_event, onlooker=""), tracer.nodes),
        ),
        ("what transactions wait for", await waits_text(cluster)),
        ("faults", rules_text(fault_states)),
    ]
    if not tracer.on:
        titled_sections.insert(0, ("nothing was recorded", RECORD))
    return "".join(
        f"txnsim: {title}\n{section_text}\n"
        for title, section_text in titled_sections
        if section_text
    )
