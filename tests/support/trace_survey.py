"""Counts over traces: who has no cause, which fields are missing, which kinds never occur.

``python -m tests.support.trace_survey`` tells every story of the zoo in virtual time, at both
levels of the trace, and prints the counts. ``tests/lab/catalogue/test_causes.py`` holds them.
"""

from __future__ import annotations

import logging
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import msgspec
import structlog

from txnsim.runtime.trace import Event, TraceLevel
from txnsim.runtime.trace_kinds import KINDS
from txnsim.wire.apis import APIS
from txnsim_lab.conformance._book.casebook_reader import rules
from txnsim_lab.scenario import catalog
from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time

WALKED_BACK: Final = ("marker.acked", "txn.complete", "log.lso", "fault.hit")
"""Kinds from which a walk along the main causes must end at a root."""
ROOTS: Final = frozenset(
    {"client.call", "timer.fire", "input", "node.up", "fault.arm", "conn.open", "note"}
    | {"check.violation", "check.pass", "share.unload"}
)
"""Kinds that may have no cause; a request of a foreign client is the other one. A share partition
is unloaded when a connection ends, too.
"""
RULED: Final = frozenset(
    {"txn.decide", "txn.append", "log.append", "log.reject", "log.duplicate", "verify.answer"}
    | {"marker.owed", "marker.sent", "marker.written", "marker.acked", "marker.refused"}
    | {"marker.cancelled", "pid.expire"}
)
"""Decisions, refusals, markers and appends: each names its row of docs/rules.md."""
SPELLINGS: Final = {
    "api": re.compile("|".join(name for name, _ in APIS.values())),
    "error": re.compile(r"[A-Z][A-Z0-9_]*(,[A-Z][A-Z0-9_]*)*"),
    "tp": re.compile(r"[A-Za-z0-9._-]+-[0-9]+"),
    "peer": re.compile(r"(broker|client)/.*|.*:[0-9]+"),
}
"""How a field is written, whatever the kind of its event."""


def scenario_runs(scenarios: Iterable[Scenario]) -> Iterator[ScenarioRun]:
    for scenario in scenarios:
        for run_name in scenario.runs:
            for take_name in scenario.takes:
                yield ScenarioRun(scenario=scenario, run=run_name, take=take_name)


def main_runs(scenarios: Iterable[Scenario]) -> Iterator[ScenarioRun]:
    """Every run of these stories in its first take, and the first run in every take: what another
    take changes is the same in every run.
    """
    for scenario_run in scenario_runs(scenarios):
        run_by_name, takes = scenario_run.scenario.runs, scenario_run.scenario.takes
        if scenario_run.run == next(iter(run_by_name)) or scenario_run.take == takes[0]:
            yield scenario_run


def first_runs(scenarios: Iterable[Scenario]) -> Iterator[ScenarioRun]:
    """The first run of each story in its first take, which has the fault."""
    for scenario in scenarios:
        yield ScenarioRun(scenario=scenario, run=next(iter(scenario.runs)), take=scenario.takes[0])


def events_of(trace: bytes) -> tuple[list[str], list[Event]]:
    """The nodes of an exported trace, and its events."""
    header, *lines = trace.splitlines()
    nodes = msgspec.json.decode(header)["nodes"]
    decoder = msgspec.json.Decoder(Event)
    return nodes, [decoder.decode(line) for line in lines[:-1]]


def is_root(event: Event, node_name: str) -> bool:
    """Whether an event at this node may have no cause."""
    if event.k == "msg.recv":
        return not data(event).get("response") and str(data(event)["peer"]).startswith("client/")
    if event.k == "msg.send":
        return not data(event).get("response") and node_name.startswith("client/")
    return event.k in ROOTS


def data(event: Event) -> dict[str, Any]:
    """The event's payload; empty if the event has none."""
    return event.d if isinstance(event.d, dict) else {}


def chain(events: Sequence[Event], event: Event) -> list[Event]:
    """The event and its chain of main causes, up to an event without a cause."""
    link_events = [event]
    while event.p:
        event = events[event.p[0] - events[0].i]
        link_events.append(event)
    return link_events


class Survey:
    """Counts over many traces."""

    def __init__(self) -> None:
        self.runs = 0
        self.kinds: Counter[str] = Counter()
        self.orphans: Counter[str] = Counter()
        self.strays: Counter[str] = Counter()
        """Chains that end at an event that is no root, by the kinds of their two ends."""
        self.roots: Counter[str] = Counter()
        self.unruled: Counter[str] = Counter()
        """Kinds in ``RULED`` that name no row of docs/rules.md, with what they name."""
        self.misspelt: Counter[str] = Counter()
        """Fields whose values do not match ``SPELLINGS``."""
        self.without: Counter[str] = Counter()
        """``kind.field`` of the table of kinds that an event did not carry."""
        self.examples: dict[str, str] = {}

    def take(self, name: str, trace: bytes) -> None:
        """Count one more trace."""
        nodes, events = events_of(trace)
        self.runs += 1
        for event in events:
            self.kinds[_name(event)] += 1
            if not event.p and not is_root(event, nodes[event.n]):
                self.orphans[_name(event)] += 1
                self.examples.setdefault(_name(event), f"{name}: {event.i} at {nodes[event.n]}")
            if event.k in WALKED_BACK:
                end_event = chain(events, event)[-1]
                if is_root(end_event, nodes[end_event.n]):
                    self.roots[f"{event.k} <- {_name(end_event)}"] += 1
                else:
                    self.strays[f"{event.k} <- {_name(end_event)}"] += 1
            if event.k in RULED and data(event).get("rule") not in rules():
                self.unruled[f"{event.k} {data(event).get('rule')}"] += 1
            for field_name, spelling in SPELLINGS.items():
                value = data(event).get(field_name)
                if value is not None and not spelling.fullmatch(str(value)):
                    self.misspelt[f"{event.k}.{field_name} {value!r}"] += 1
            for field_name in KINDS[event.k].fields - data(event).keys():
                self.without[f"{event.k}.{field_name}"] += 1
            if not event.tx:
                self.without[f"{event.k}.tx"] += 1

    def report(self) -> str:
        """The counts as text."""
        total_count = sum(self.kinds.values())
        orphan_count = sum(self.orphans.values())
        seen_kinds = {name.partition(" ")[0] for name in self.kinds}
        lines = [f"{self.runs} runs, {total_count} events, {orphan_count} without a cause"]
        lines += [
            f"  {count:7} of {self.kinds[kind]:7} ({count / self.kinds[kind]:4.0%}) {kind}"
            f"   e.g. {self.examples[kind]}"
            for kind, count in self.orphans.most_common()
        ]
        lines += ["ends of chains that are no roots:", *_counts(self.strays)]
        lines += ["roots:", *_counts(self.roots)]
        lines += [f"never seen: {', '.join(sorted(KINDS.keys() - seen_kinds)) or 'none'}"]
        lines += ["rules that are no row of docs/rules.md:", *_counts(self.unruled)]
        lines += ["not as it is spelt elsewhere:", *_counts(self.misspelt)]
        lines += ["missing fields:"]
        lines += [
            f"  {count:7} of {kind_total:7} {name}"
            for name, count in sorted(self.without.items())
            if (kind_total := sum(n for k, n in self.kinds.items() if k.split()[0] == _kind(name)))
        ]
        return "\n".join(lines)


def _kind(field_name: str) -> str:
    return field_name.rpartition(".")[0]


def _name(event: Event) -> str:
    """The event's kind; for messages with direction and peer."""
    if not event.k.startswith("msg."):
        return event.k
    direction = "answer" if data(event).get("response") else "request"
    peer = str(data(event).get("peer", "")).partition("/")[0]
    return f"{event.k} {direction} {peer}"


def _counts(counts: Counter[str]) -> list[str]:
    return [f"  {count:7} {name}" for name, count in counts.most_common()]


def main(levels: Sequence[TraceLevel], every: int) -> None:
    """Play stories at these levels and print the counts."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    for transaction_version in levels:
        survey = Survey()
        for scenario_run in islice(scenario_runs(catalog.scenarios().values()), 0, None, every):
            survey.take(
                str(scenario_run),
                run_in_virtual_time(scenario_run, trace_level=transaction_version).trace,
            )
        sys.stdout.write(f"--- {transaction_version}\n{survey.report()}\n")


if __name__ == "__main__":
    _every = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    main((TraceLevel.BRIEF, TraceLevel.FULL), _every)
