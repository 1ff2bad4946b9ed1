"""One kill: arm the rule, feed until it strikes, look, kill, let go, start again, wait for all."""

from __future__ import annotations

import time
from typing import Any, Final, NamedTuple

from tests.clients.streams.application import Application
from tests.clients.streams.clusters import BROKERS
from tests.clients.streams.lab import OUTPUT, POSITIONS, TRANSACTIONS, Lab, LabError
from tests.clients.streams.plan import Kill
from tests.clients.streams.points import IdentityKind, RequestFate, Stage, StruckBroker, Victim

_RULE: Final = "kill"
_WITNESS: Final = "witness"
_JOINED: Final = "joined"
_CAUGHT: Final = "caught"
_STRIKES_WITHIN_S: Final = 90.0
_LOOKS_WITHIN_S: Final = 10.0
_ASKS_WITHIN_MS: Final = 3_000
_LOOKS_AGAIN_MS: Final = 500
_POLL_S: Final = 0.05
_NOW: Final = {"do": "delay", "delay_ms": 0}
"""Only counts: a witness disturbs nobody."""


class StrikeOutcome(NamedTuple):
    """The result of a kill."""

    victim: str
    """Who was killed, by name."""
    state: str
    """What the coordinator said of the transaction when it was struck."""
    struck_s: float
    """From the first look to the kill."""
    recovered_s: float
    """From the kill to the last output of what had been fed."""
    healed_s: float
    """From there until all brokers lead again what they did."""


class Strike:
    """Carries out one kill of a plan in a lab."""

    def __init__(self, lab: Lab, kill: Kill) -> None:
        self._lab = lab
        self._kill = kill
        self._point = kill.point
        self._application = lab.applications[kill.instance]
        self._id = self._application.transactional_id
        self._coordinator = lab.coordinator(self._application)
        self._group = lab.group_coordinator()
        self._producer_id = int(lab.describe(self._id)["producer_id"])
        self._leader = -1
        """Of the counted word that was caught."""

    def carry_out(self) -> StrikeOutcome:
        """Strike, kill, and wait until the application and the cluster have recovered.

        Raises:
            LabError: The point was not struck as its name says, or what followed was not exact.
            ApplicationError: An instance ended by itself.
        """
        start_s = time.monotonic()
        with self._lab.feeding():
            state = self._strike()
            killed_s = time.monotonic()
            victim = self._kill_victim()
        if not self._kill.stays_dead:
            self._lab.settle()
        recovered_s = time.monotonic()
        self._heal()
        return StrikeOutcome(
            victim,
            state,
            struck_s=killed_s - start_s,
            recovered_s=recovered_s - killed_s,
            healed_s=time.monotonic() - recovered_s,
        )

    # Rules

    def _rule(self) -> dict[str, object]:
        point = self._point
        is_lost = point.victim is Victim.APPLICATION and point.fate is RequestFate.LOST
        rule: dict[str, object] = {
            "id": _RULE,
            "point": point.crossing,
            "action": {"do": "drop" if is_lost else "hold"},
        }
        if point.api is not None:
            rule["api"] = point.api
        if point.committed is not None:
            rule["committed"] = point.committed
        if point.counts:
            rule["topic"] = OUTPUT
        if not point.every:
            rule["limit"] = 1
        match point.identified_by:
            case IdentityKind.CLIENT:
                rule["client_id"] = self._application.producer_client_id
            case IdentityKind.TRANSACTION:
                rule["transactional_id"] = self._id
            case IdentityKind.PRODUCER:
                rule["producer_id"] = self._producer_id
            case IdentityKind.LOG:
                partition = self._lab.coordinator_partition(self._application)
                rule |= {"topic": TRANSACTIONS, "partition": partition}
        return rule | self._brokers()

    def _brokers(self) -> dict[str, object]:
        """Which brokers' crossings: a request that reaches a former coordinator is none."""
        match self._point.struck_broker:
            case StruckBroker.LEADER:
                return {"broker": self._leader}
            case StruckBroker.GROUP_COORDINATOR:
                return {"broker": self._group}
        match self._point.api:
            case "TxnOffsetCommit":
                return {"broker": self._group}
            case "EndTxn" | "InitProducerId" | "AddPartitionsToTxn" | "AddOffsetsToTxn":
                return {"broker": self._coordinator}
            case "WriteTxnMarkers":
                return {"source": f"broker/{self._coordinator}"}
        return {}

    def _marker_witness(self) -> dict[str, object]:
        """A fault rule that changes nothing and counts the written markers."""
        return {
            "id": _WITNESS,
            "point": "peer.response",
            "action": _NOW,
            "api": "WriteTxnMarkers",
            "producer_id": self._producer_id,
        }

    # Striking

    def _strike(self) -> str:
        """Arm the rule, wait until it strikes; the state of the transaction then."""
        control = self._lab.control
        is_between = self._point.stage is Stage.BETWEEN
        if self._point.at_start:
            control.arm(self._rule())
            self._application.start()
        else:
            caught_rule = self._catch()
            control.arm(self._rule())
            if is_between:
                control.arm(self._marker_witness())
            if self._point.identified_by is IdentityKind.LOG:
                self._coordinator = self._move_coordinator()
            control.disarm(caught_rule)
        self._await_strike()
        state = self._await_state()
        if is_between:
            control.disarm(_WITNESS)
        return state

    def _catch(self) -> str:
        """Hold the instance when it writes a counted word, between two transactions' ends.

        What is armed now strikes the transaction of that word and no other. So each kill is one in
        which an output might be lost or come twice.

        Returns:
            The rule that holds it.
        """
        control = self._lab.control
        leaders = [
            broker
            for broker in BROKERS
            if self._point.struck_broker is StruckBroker.ANY or broker != self._group
        ]
        rules = {f"{_CAUGHT}-{broker}": broker for broker in leaders}
        for rule_id, broker in rules.items():
            control.arm(
                {
                    "id": rule_id,
                    "point": "client.request",
                    "action": {"do": "hold"},
                    "api": "Produce",
                    "topic": OUTPUT,
                    "client_id": self._application.producer_client_id,
                    "broker": broker,
                }
            )
        deadline_s = time.monotonic() + _STRIKES_WITHIN_S
        while (rule := control.find_struck(rules)) is None:
            self._go_on_waiting(deadline_s, "never wrote a counted word")
            time.sleep(_POLL_S)
        self._leader = rules[rule]
        for other_rule in rules.keys() - {rule}:
            control.disarm(other_rule)
        # The end of the transaction before may still be on its way (KIP-890, transactions v2).
        while self._lab.describe(self._id)["state"].startswith("Prepare"):
            self._go_on_waiting(deadline_s, "the transaction before does not end")
            time.sleep(_POLL_S)
        return rule

    def _await_strike(self) -> None:
        deadline_s = time.monotonic() + _STRIKES_WITHIN_S
        while True:
            if self._lab.control.has_struck(_RULE, timeout_ms=_LOOKS_AGAIN_MS):
                return
            self._go_on_waiting(deadline_s, f"never struck: {self._lab.control.rule(_RULE)}")

    def _go_on_waiting(self, deadline_s: float, problem_text: str) -> None:
        for application in self._lab.applications.values():
            application.expect_alive()
        if time.monotonic() > deadline_s:
            raise LabError(
                f"after {_STRIKES_WITHIN_S:.0f} s: {problem_text}; "
                f"transactions: {self._lab.transactions()}"
            )

    def _await_state(self) -> str:
        """Wait until the transaction's state is the one that the point promises; return it."""
        if not self._point.states:
            return ""
        deadline_s = time.monotonic() + _LOOKS_WITHIN_S
        while True:
            description = self._lab.describe(self._id)
            problem_text = self._problem(description)
            if problem_text is None:
                return str(description["state"])
            if time.monotonic() > deadline_s:
                raise LabError(f"struck, but {problem_text}: {description}")
            time.sleep(_POLL_S)

    def _problem(self, description: dict[str, Any]) -> str | None:
        if description["state"] not in self._point.states:
            return f"it is {description['state']}, not {' or '.join(self._point.states)}"
        if self._point.stage is not Stage.BETWEEN:
            return None
        if not self._lab.control.rule(_WITNESS)["struck"]:
            return "no marker has been written"
        held_at_ms = (
            self._leader if self._point.struck_broker is StruckBroker.LEADER else self._group
        )
        leaders = {partition[:2]: partition.leader for partition in self._lab.control.partitions()}
        owed_partitions = [
            (partition["topic"], partition["partition"]) for partition in description["partitions"]
        ]
        misplaced_partitions = [
            partition for partition in owed_partitions if leaders[partition] != held_at_ms
        ]
        if not owed_partitions or misplaced_partitions:
            return (
                f"markers are owed to {owed_partitions}, held is what goes to broker {held_at_ms}"
            )
        are_positions_owed = any(topic == POSITIONS for topic, _ in owed_partitions)
        if are_positions_owed != (self._point.struck_broker is StruckBroker.GROUP_COORDINATOR):
            return f"markers are owed to {owed_partitions}"
        return None

    # Killing

    def _kill_victim(self) -> str:
        match self._point.victim:
            case Victim.APPLICATION:
                self._kill_application(self._application)
                return f"application {self._application.name}"
            case _:
                broker = self._killed_broker()
                self._lab.control.kill(broker)
                self._lab.control.disarm(_RULE)
                return f"broker {broker}"

    def _kill_application(self, application: Application) -> None:
        control = self._lab.control
        application.kill()
        if self._point.fate in (RequestFate.LOST, RequestFate.AT_ONCE):
            control.disarm(_RULE)
        if self._kill.stays_dead:
            return
        if self._point.fate is RequestFate.BACK:
            self._start_until_back(application)
            control.disarm(_RULE)
            return
        application.start()
        if self._point.fate is RequestFate.LATE:
            application.await_running(_STRIKES_WITHIN_S)
            control.disarm(_RULE)

    def _start_until_back(self, application: Application) -> None:
        """Start it and wait until its producer id has been asked for.

        That need not come. The other instance may have got the tasks of the dead one first: then it
        waits for stable positions (KIP-447), which are pending until the markers are written, and
        does not join the group again, for which the new life waits. So joining is enough, if the
        rest does not follow soon.
        """
        control = self._lab.control
        control.arm(
            _counting_rule(_JOINED, self._lab.join_api, application.consumer_client_id, "request")
        )
        control.arm(_counting_rule(_WITNESS, "InitProducerId", application.producer_client_id))
        application.start()
        if not control.has_struck(_JOINED, timeout_ms=int(_STRIKES_WITHIN_S * 1000)):
            raise LabError("the next life has not joined the group")
        control.has_struck(_WITNESS, timeout_ms=_ASKS_WITHIN_MS)
        control.disarm(_JOINED)
        control.disarm(_WITNESS)

    def _killed_broker(self) -> int:
        match self._point.victim:
            case Victim.GROUP_COORDINATOR:
                return self._group
            case Victim.LEADER:
                return self._leader
            case _:
                return self._coordinator

    def _heal(self) -> None:
        if self._point.victim is Victim.APPLICATION:
            self._lab.lead_as_preferred()
        else:
            self._lab.heal(self._killed_broker())

    def _move_coordinator(self) -> int:
        """Hand the coordination to another broker, which begins to read its log."""
        target_broker_id = next(
            broker for broker in BROKERS if broker not in (self._coordinator, self._group)
        )
        partition = self._lab.coordinator_partition(self._application)
        self._lab.control.move_leader(TRANSACTIONS, partition, target_broker_id)
        return target_broker_id


def _counting_rule(
    rule_id: str, api: str, client_id: str, crossing: str = "response"
) -> dict[str, object]:
    """A rule that counts the requests of a client, or the answers to them."""
    return {
        "id": rule_id,
        "point": f"client.{crossing}",
        "action": _NOW,
        "api": api,
        "client_id": client_id,
    }
