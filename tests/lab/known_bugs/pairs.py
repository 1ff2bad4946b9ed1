"""Which acts of runs meet, and which never do.

``python -m tests.lab.known_bugs.pairs 0..500`` plays these seeds and prints a table: what lasts,
what somebody else did to the same thing meanwhile, and in how many seeds. A thing is a partition, a
transactional id, the positions of a group, or the cluster. What lasts is an open transaction that
has written there, a fault, or a broker that is away. A pair that never meets is a draw that is
missing: a bug that needs both can't be found. An act that came to an error met nothing. Where a
pair can't be, the table says why (``UNABLE``).
"""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from txnsim_lab.scenario.call_results import NONE
from txnsim_lab.simulation.drawing import draw
from txnsim_lab.simulation.plan import Act, Plan
from txnsim_lab.simulation.play import PlayedAct, play, quieten

CLUSTER: Final = "cluster"
_ENDS: Final = {"stop": "start", "kill": "start", "isolate": "heal"}
_OF_GROUPS: Final = ("commit-offsets", "read-positions", "poll", "subscribe", "leave", "die")

_ON_LOGS: Final = ("producers", "read", "delete-records")
"""What can be asked of any partition, those of Kafka's own topics as well."""
_OWN: Final = "open (commit-offsets|transaction)"
UNABLE: Final[Sequence[tuple[str, frozenset[str], str]]] = (
    (".*", frozenset(("cluster age",)), "an id is made old before it is first used"),
    (_OWN, frozenset(("delete-records",)), "brokers refuse it for Kafka's own topics"),
    (
        "open transaction",
        frozenset(("cluster delete-topic", "cluster create-topic", "cluster grow-topic")),
        "without its partition, or at another number of them, a coordinator has lost its ids",
    ),
    (
        "open transaction",
        frozenset(("send", "await-ack", "add-offsets", "commit-offsets")),
        "only clients that send by hand share an id",
    ),
)
"""What lasts as a pattern, the acts that can't meet it, and why."""


class Cast(NamedTuple):
    """The groups, transactional ids and partitions of a plan."""

    groups: Mapping[str, str]
    """Of members."""
    ids: Mapping[str, str]
    places: tuple[str, ...]

    @classmethod
    def of(cls, plan: Plan) -> Cast:
        actors = {track.name: track.actor for track in plan.tracks if track.actor is not None}
        return cls(
            {
                actor_name: actor["group"]
                for actor_name, actor in actors.items()
                if "group" in actor
            },
            {
                actor_name: actor["transactional-id"]
                for actor_name, actor in actors.items()
                if "transactional-id" in actor
            },
            tuple(
                f"{topic_name}-{index}"
                for topic_name, topic in plan.world.topics.items()
                for index in range(topic["partitions"])
            ),
        )


class LastingFact(NamedTuple):
    """A state that lasts from one time to another, such as a fault."""

    what: str
    thing: str
    who: str
    from_us: int
    until_us: int


class Touch(NamedTuple):
    """An act upon a thing, such as a partition, at one time."""

    what: str
    thing: str
    who: str
    at_us: int


def touches(played_act: PlayedAct, cast: Cast) -> Iterator[Touch]:
    """The things that an act is about, each as a ``Touch``."""
    call: dict[str, Any] = played_act.step.get("call", {})
    act: dict[str, Any] = played_act.step.get("cluster", {})
    actor, request_name = str(call.get("who", "")), Act(played_act.step).request_name
    is_alone = call.get("plain") or (call.get("do") == "commit-offsets" and actor in cast.groups)
    subjects = {call.get("partition"), act.get("partition"), *call.get("beside", ())}
    subjects |= {call.get("transactional-id"), act.get("coordinator-of")}
    if not call.get("plain"):
        subjects.add(cast.ids.get(actor))
    if call.get("do") in _OF_GROUPS:
        group = call.get("group") or cast.groups.get(call.get("member", actor))
        subjects.add(None if group is None else f"__consumer_offsets@{group}")
    if topic := act.get("topic"):
        subjects |= {
            place_name for place_name in cast.places if place_name.rpartition("-")[0] == topic
        }
        subjects |= {f"__consumer_offsets@{group}" for group in cast.groups.values()}
    if act or "arm" in played_act.step or "advance" in played_act.step:
        subjects.add(CLUSTER)
    for subject in sorted(
        {_subject_of_name(subject_name) for subject_name in subjects if subject_name is not None}
    ):
        yield Touch(
            request_name + " plain" * bool(is_alone),
            subject,
            actor or "disturber",
            played_act.at_us,
        )


def _subject_of_name(subject: str) -> str:
    """The partition of a coordinator stands for the id that it serves."""
    return subject.removeprefix("__transaction_state@")


def lasting(all_played_acts: Iterable[PlayedAct], cast: Cast) -> Iterator[LastingFact]:
    """The lasting states of a run: open transactions with their subjects, faults, outages."""
    end_us = max(
        (played_act.at_us + played_act.took_us for played_act in all_played_acts), default=0
    )
    touched_by_actor: dict[str, dict[str, tuple[str, int]]] = {}
    faults: dict[Any, tuple[str, int]] = {}
    for played_act in all_played_acts:
        call, after_us = played_act.step.get("call", {}), played_act.at_us + played_act.took_us
        do, actor = call.get("do"), str(call.get("who", ""))
        if actor in cast.ids and do in ("produce", "send", "commit-offsets"):
            for touch in touches(played_act, cast):
                if played_act.error == NONE and not call.get("plain"):
                    condition = (
                        "open transaction" if touch.thing == cast.ids[actor] else f"open {do}"
                    )
                    touched_by_actor.setdefault(actor, {}).setdefault(
                        touch.thing, (condition, after_us)
                    )
        elif do in ("commit", "abort"):
            for subject, (condition, from_us) in touched_by_actor.pop(actor, {}).items():
                yield LastingFact(condition, subject, actor, from_us, played_act.at_us)
        act, rule = played_act.step.get("cluster", {}), played_act.step.get("arm", {})
        if rule:
            fault_name = f"{rule['action']['do']} {rule.get('api', rule['point'])}"
            faults[rule["id"]] = (fault_name, after_us)
        elif act.get("do") in _ENDS:
            faults[_ENDS[act["do"]], act["broker"]] = (f"cluster {act['do']}", after_us)
        ended_fault = faults.pop(
            played_act.step.get("disarm") or (act.get("do"), act.get("broker")), None
        )
        if ended_fault is not None:
            yield LastingFact(ended_fault[0], CLUSTER, "", ended_fault[1], played_act.at_us)
    for actor, touches_by_subject in touched_by_actor.items():
        for subject, (condition, from_us) in touches_by_subject.items():
            yield LastingFact(condition, subject, actor, from_us, end_us)
    for condition, from_us in faults.values():
        yield LastingFact(condition, CLUSTER, "", from_us, end_us)


def met(all_played_acts: tuple[PlayedAct, ...], cast: Cast) -> set[tuple[str, str]]:
    """The pairs of a lasting state and an act of another actor in its time, in one run."""
    acts = [
        touch
        for played_act in all_played_acts
        if played_act.error == NONE
        for touch in touches(played_act, cast)
    ]
    return {
        (lasting_fact.what, touch.what)
        for lasting_fact in lasting(all_played_acts, cast)
        for touch in acts
        if touch.thing == lasting_fact.thing
        and touch.who != lasting_fact.who
        and lasting_fact.from_us < touch.at_us < lasting_fact.until_us
    }


def kind_of(subject: str) -> str:
    """Return the kind of a subject: the cluster, a group, a partition or an id."""
    if subject == CLUSTER:
        return subject
    return "group" if "@" in subject else "partition" if "-" in subject else "id"


class Table:
    """Counts which pairs of acts and states met in the runs of some seeds."""

    def __init__(self, seeds: Iterable[int]) -> None:
        self.pairs: Counter[tuple[str, str]] = Counter()
        """In how many seeds each pair met."""
        acts: defaultdict[str, set[str]] = defaultdict(set)
        kinds: dict[str, str] = {}
        for seed in seeds:
            plan = draw(seed)
            cast, all_played_acts = Cast.of(plan), play(plan).acts
            self.pairs.update(met(all_played_acts, cast))
            for played_act in all_played_acts:
                for touch in touches(played_act, cast):
                    acts[kind_of(touch.thing)].add(touch.what)
            kinds |= {
                lasting_fact.what: kind_of(lasting_fact.thing)
                for lasting_fact in lasting(all_played_acts, cast)
            }
        cluster_acts = {act for act in acts["partition"] if act.startswith("cluster ")}
        for act_kind in ("group", "id"):
            acts[act_kind] |= cluster_acts | acts["partition"].intersection(_ON_LOGS)
        self._acts = {act_name: acts[act_kind] for act_name, act_kind in kinds.items()}

    def lines(self) -> Iterator[str]:
        """A row for each thing that lasts: what met it, the rarest first; then what never did."""
        for lasting_fact, acts in sorted(self._acts.items()):
            row = sorted((self.pairs[lasting_fact, act_name], act_name) for act_name in acts)
            counts_text = ", ".join(f"{act_name} {count}" for count, act_name in row if count)
            yield f"{lasting_fact}: {counts_text}"
            never_met = [
                act_name
                for count, act_name in row
                if not count and not reason(lasting_fact, act_name)
            ]
            yield f"    never: {', '.join(never_met) or 'none'}"
        for lasting_fact, unable, unable_reason in UNABLE:
            yield f"can't be: {lasting_fact} with {', '.join(sorted(unable))}: {unable_reason}"


def reason(lasting_fact: str, act_name: str) -> str:
    """Why an act can't meet what lasts; empty where it can."""
    reasons = (
        reason
        for pattern, acts, reason in UNABLE
        if act_name in acts and re.fullmatch(pattern, lasting_fact)
    )
    return next(reasons, "")


def main() -> None:
    """Print how often each pair met, the rarest first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", help="from..to")
    first_seed, _, last_seed = parser.parse_args().seeds.partition("..")
    quieten()
    for line in Table(range(int(first_seed), int(last_seed))).lines():
        print(line)  # noqa: T201 - a command


if __name__ == "__main__":
    main()
