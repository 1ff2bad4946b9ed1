"""What a failing test shows, and that it stays short."""

from __future__ import annotations

from txnsim.faults.actions import Hold
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.http.report import LINE_CHARACTERS_MAX, SENTENCES_MAX
from txnsim.runtime.trace import TraceLevel, Tracer
from txnsim.testing._report import EVENTS_MAX, sections
from txnsim.testing.faults import FaultState

RULE = FaultRule(id="late", point=FaultPoint.CLIENT_REQUEST, action=Hold())


def tracer(notes: int, *, level: TraceLevel = TraceLevel.BRIEF) -> Tracer:
    made = Tracer(lambda: 5_000, level=level)
    for number in range(notes):
        made.emit("note", "scenario", data={"text": f"note {number}"})
    return made


def test_story_events_and_faults_are_told() -> None:
    state = FaultState(
        rule=RULE, matched=2, struck=1, held=1, released=0, may_miss=False, in_force=False
    )
    found = dict(sections(tracer(2), [state]))
    assert found["txnsim: what happened"].splitlines() == [
        "      5 ms  scenario: note 0",
        "      5 ms  scenario: note 1",
    ]
    assert found["txnsim: last events"].splitlines()[1].endswith('scenario  {"text":"note 1"}')
    assert found["txnsim: faults"].startswith(
        "late: 2 matched, 1 struck, 1 held, 0 released, disarmed: {"
    )


def test_an_action_that_failed_says_why() -> None:
    state = FaultState(
        rule=RULE,
        matched=1,
        struck=0,
        held=0,
        released=0,
        may_miss=False,
        in_force=True,
        failure="there is no broker 9",
    )
    assert (
        ", failed (there is no broker 9): {" in dict(sections(tracer(0), [state]))["txnsim: faults"]
    )


def test_it_begins_where_the_test_began() -> None:
    found = dict(sections(tracer(3), [], since=2))
    assert "note 1" not in found["txnsim: what happened"]
    assert "note 2" in found["txnsim: what happened"]
    assert "txnsim: faults" not in found


def test_it_is_bounded() -> None:
    made = tracer(200)
    made.emit("note", "scenario", data={"text": "x" * 10_000})
    found = dict(sections(made, []))
    lines = found["txnsim: what happened"].splitlines()
    assert lines[0] == f"… {201 - SENTENCES_MAX} sentences before"
    assert len(lines) == SENTENCES_MAX + 1
    assert len(found["txnsim: last events"].splitlines()) == EVENTS_MAX
    assert max(map(len, lines)) == LINE_CHARACTERS_MAX + 1


def test_an_empty_trace_says_nothing_and_one_that_is_off_says_so() -> None:
    assert sections(tracer(0), []) == []
    ((title, text),) = sections(tracer(1, level=TraceLevel.OFF), [])
    assert (title, text) == ("txnsim", 'nothing was recorded: trace is "off" for this cluster')


def test_the_test_s_own_looking_is_left_out() -> None:
    made = tracer(0)
    for peer, api in (
        ("client/txnsim-testing", "Fetch"),
        ("broker/2", "Fetch"),
        ("broker/3000", "BrokerHeartbeat"),
        ("broker/3000", "AllocateProducerIds"),
        ("client/app", "Fetch"),
    ):
        payload = {"api": api, "correlation": 1, "peer": peer, "response": False, "version": 1}
        made.emit("msg.recv", "broker/1", data=payload)
    empty = {"tp": "__transaction_state-11", "transactions": 0, "coordinator_epoch": 0}
    made.emit("txn.load", "broker/1/txn/11", data=empty)
    (line,) = dict(sections(made, []))["txnsim: last events"].splitlines()
    assert '"peer":"client/app"' in line
