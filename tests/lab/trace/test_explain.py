from __future__ import annotations

import pytest

from tests.support.small_trace import small
from tests.support.traces import hung_at, recording_of_run
from txnsim.errors import BadInputError
from txnsim.runtime.trace import TraceLevel
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.verdict.judge import judge_cluster
from txnsim_lab.trace.cause_chains import by_position
from txnsim_lab.trace.explain import (
    BRIEF_REMARK,
    cause_path,
    explain_lso,
    explain_txn,
    explained_partitions,
    mismatches,
)
from txnsim_lab.trace.followed_trace import FollowedTrace

NODES = ("broker/1", "broker/1/log/t-0", "broker/2/txn/0", "fault", "client/app")
TX = "app/7:0"
LEADS = ("broker/1", "node.role", (), "", {"tp": "t-0", "role": "leader", "epoch": 0})
MOVE = {"pid": 7, "epoch": 0, "pending": None, "timeout_ms": 60_000}


def completed_move(state: str, *partitions: str) -> tuple[str, str, tuple[int, ...], str, object]:
    return (NODES[2], "txn.complete", (), TX, {**MOVE, "state": state, "partitions": partitions})


def in_log(kind: str, **data: object) -> tuple[str, str, tuple[int, ...], str, object]:
    return (NODES[1], kind, (), TX, {"tp": "t-0", "pid": 7, "epoch": 0, **data})


APPENDED = in_log("log.append", seq=0, base=0, last=1)
OPENED = in_log("pid.open", first=0, timestamp=0)
HW = in_log("log.hw", to=2)
OWED = (NODES[2], "marker.owed", (), TX, {"tp": "t-0", "committed": False})


def test_a_hanging_transaction_is_told_with_its_evidence_and_the_repair() -> None:
    recording = recording_of_run()
    lso_explanation = explain_lso(recording, "payments-0", at=hung_at(recording))
    assert lso_explanation.cause == "hanging transaction"
    assert lso_explanation.last_stable_offset == 1
    assert lso_explanation.repair == "txnsim txns repair --topic payments --partition 0 --yes"
    assert lso_explanation.marker == "ABORT"
    kinds = {by_position(recording.events)[position].k for position in lso_explanation.evidence}
    assert {"pid.open", "txn.complete"} <= kinds
    assert lso_explanation.sentences[-1] == BRIEF_REMARK
    assert explain_lso(recording, "payments-0").cause == "nothing"


def test_reasons_have_neither_the_advice_nor_its_command() -> None:
    recording = recording_of_run()
    explanation = explain_lso(recording, "payments-0", at=hung_at(recording))
    advice = explanation.verdict.advice
    assert explanation.repair is not None
    assert advice.startswith("It hangs.")
    assert explanation.repair not in advice
    (advice_sentence,) = (
        sentence for sentence in explanation.sentences if sentence.startswith(advice)
    )
    assert advice_sentence.endswith((explanation.repair, f"{explanation.repair} --guess"))
    assert explanation.remarks == (BRIEF_REMARK,)
    assert [*explanation.reasons, advice_sentence, *explanation.remarks] == sorted(
        explanation.sentences, key=[*explanation.reasons, advice_sentence, BRIEF_REMARK].index
    )
    explanation_of_nothing_held = explain_lso(recording, "payments-0")
    assert explanation_of_nothing_held.verdict.advice == ""
    assert (
        explanation_of_nothing_held.reasons + explanation_of_nothing_held.remarks
        == explanation_of_nothing_held.sentences
    )


def test_at_full_the_high_watermark_is_known() -> None:
    recording = recording_of_run(trace_level=TraceLevel.FULL)
    assert BRIEF_REMARK not in explain_lso(recording, "payments-0").sentences


@pytest.mark.parametrize(("replicas", "is_remarked"), [(1, False), (2, True)])
def test_at_brief_the_log_end_of_a_single_replica_needs_no_remark(
    *, replicas: int, is_remarked: bool
) -> None:
    leads = (*LEADS[:4], {"tp": "t-0", "role": "leader", "epoch": 0, "replicas": replicas})
    lso_explanation = explain_lso(small(NODES, leads, APPENDED, OPENED, level="brief"), "t-0")
    assert lso_explanation.high_watermark == 2
    assert (BRIEF_REMARK in lso_explanation.sentences) == is_remarked


@pytest.mark.parametrize(
    ("events", "cause"),
    [
        ((LEADS,), "nothing"),
        ((LEADS, APPENDED, HW), "marker not replicated"),
        ((LEADS, completed_move("Ongoing", "t-0"), APPENDED, OPENED, HW), "open transaction"),
        (
            (LEADS, completed_move("PrepareAbort", "t-0"), OWED, APPENDED, OPENED, HW),
            "marker outstanding",
        ),
        ((LEADS, APPENDED, OPENED, HW), "hanging transaction"),
        ((LEADS, completed_move("Empty"), APPENDED, OPENED, HW), "hanging transaction"),
    ],
)
def test_what_holds_readers_back(events: tuple[tuple[object, ...], ...], cause: str) -> None:
    assert explain_lso(small(NODES, *events), "t-0").cause == cause


@pytest.mark.parametrize(
    ("subject", "evidence"),
    [
        ({"pid": 7, "partitions": ["t-0"]}, (1, 2, 4, 7)),
        ({"id": "other", "pid": 8, "partitions": []}, (1, 2, 4)),
    ],
)
def test_what_is_held_of_it_is_part_of_the_evidence(
    subject: dict[str, object], evidence: tuple[int, ...]
) -> None:
    rule = {"rule": "late", "point": "peer.request", "action": "hold"}
    recording = small(
        NODES,
        LEADS,
        completed_move("PrepareAbort", "t-0"),
        OWED,
        APPENDED,
        OPENED,
        HW,
        ("fault", "fault.arm", (), "", rule),
        ("fault", "fault.hit", (), "", {**rule, "struck": 1, "held": 1, "about": [subject]}),
    )
    assert explain_lso(recording, "t-0").evidence == evidence


def test_share_groups_that_get_nothing_are_named() -> None:
    def share(group: str, isolation: str, partition_name: str = "t-0") -> tuple[object, ...]:
        share_state = {"start": 0, "next": 0, "held": [], "isolation": isolation}
        return (
            "broker/1",
            "share.load",
            (),
            "",
            {"group": group, "tp": partition_name, **share_state},
        )

    recording = small(
        NODES,
        LEADS,
        *(APPENDED, OPENED, HW),
        share("a b", "read_committed"),
        share("hasty", "read_uncommitted"),
        share("other", "read_committed", "u-0"),
    )
    sentence = (
        "Share groups with read_committed get nothing from there on either: a b (start offset 0)."
    )
    assert explain_lso(recording, "t-0").sentences[-1] == sentence


def test_a_marker_of_an_id_that_begins_alike_is_no_evidence() -> None:
    owed_of_other = (NODES[2], "marker.owed", (), "app/b/8:0", {"tp": "t-0", "committed": False})
    recording = small(
        NODES, LEADS, completed_move("PrepareAbort", "t-0"), owed_of_other, APPENDED, OPENED, HW
    )
    assert explain_lso(recording, "t-0").evidence == (1, 4)


def test_what_hangs_in_a_topic_of_kafka_comes_first() -> None:
    partition_name = "__consumer_offsets-1"
    nodes = (*NODES, f"broker/1/log/{partition_name}")
    leads = (*LEADS[:4], {"tp": partition_name, "role": "leader", "epoch": 0})
    other_leads = (*LEADS[:4], {"tp": "a-0", "role": "leader", "epoch": 0})
    data = {"tp": partition_name, "pid": 9, "epoch": 0, "first": 3}
    hangs = (nodes[-1], "pid.open", (), "", data)
    recording = small(
        nodes, other_leads, LEADS, leads, completed_move("Ongoing", "t-0"), OPENED, hangs
    )
    followed_trace = FollowedTrace.of_recording(recording)
    open_transactions = mismatches(judge_cluster(followed_trace.facts()), followed_trace)
    assert explained_partitions(followed_trace.state, open_transactions) == [
        partition_name,
        "t-0",
        "a-0",
    ]


def test_at_brief_nothing_is_said_of_a_marker_that_may_not_be_there() -> None:
    """A plain record that followers did not have yet was told as "the marker that ended it"."""
    append_event = (NODES[1], "log.append", (), "", {"tp": "t-0", "pid": -1, "base": 0, "last": 0})
    lso_explanation = explain_lso(small(NODES, LEADS, append_event, level="brief"), "t-0")
    assert lso_explanation.cause == "not yet on all replicas"
    assert lso_explanation.sentences[1].startswith(
        "No transaction is open there. What was written last"
    )
    assert lso_explanation.evidence == ()


def test_what_the_trace_does_not_know_is_refused() -> None:
    recording = small(NODES, LEADS)
    with pytest.raises(BadInputError, match="tells nothing of u-0 up to #0; it has t-0"):
        explain_lso(recording, "u-0")
    with pytest.raises(BadInputError, match="no coordinator of this trace has 'app'"):
        explain_txn(recording, "app")


def test_a_transaction_is_told_with_what_caused_its_last_move() -> None:
    recording = recording_of_run()
    txn_explanation = explain_txn(recording, "app", at=hung_at(recording))
    assert txn_explanation.sentences[0].startswith(
        "app is Empty: producer id 0, epoch 1, at the coordinator"
    )
    assert "client late-producer, who was asked to abort" in txn_explanation.sentences[1]
    assert "open since offset 1: hanging" in txn_explanation.sentences[2]
    events = by_position(recording.events)
    assert [events[position].k for position in txn_explanation.chain] == [
        "txn.complete",
        "client.call",
    ]


@pytest.mark.parametrize(
    ("more_events", "expected_words"),
    [
        ((), "The ABORT marker of t-0 is owed."),
        (((NODES[2], "marker.sent", (), TX, {"tp": "t-0"}),), "on its way and not acknowledged"),
        (
            ((NODES[1], "marker.refused", (), TX, {"tp": "t-0", "error": "NOT_LEADER"}),),
            "was refused with NOT_LEADER",
        ),
    ],
)
def test_markers_that_are_owed_are_told(
    more_events: tuple[tuple[object, ...], ...], expected_words: str
) -> None:
    txn_explanation = explain_txn(
        small(NODES, completed_move("PrepareAbort", "t-0"), OWED, *more_events), "app"
    )
    assert expected_words in txn_explanation.sentences[-1]


@pytest.mark.parametrize(
    ("root", "expected_words"),
    [
        (("client/app", "client.call", (), "", {"call": "commit"}), "who was asked to commit"),
        (
            (NODES[0], "msg.recv", (), "", {"api": "EndTxn", "peer": "client/x"}),
            "EndTxn of client x",
        ),
        ((NODES[2], "timer.fire", (), "", {"timer": "transaction.timeout"}), "the timer"),
        (("fault", "input", (), "", {"do": "advance", "args": {}, "at": 0}), "the user: advance"),
        ((NODES[0], "node.up", (), "", None), "node.up at broker 1"),
    ],
)
def test_the_root_of_a_move_is_named(root: tuple[object, ...], expected_words: str) -> None:
    move = (NODES[2], "txn.complete", (0,), TX, {**MOVE, "state": "Empty", "partitions": []})
    assert expected_words in explain_txn(small(NODES, root, move), "app").sentences[1]


def test_a_walk_skips_copies_but_not_the_root() -> None:
    recording = small(
        NODES,
        (NODES[0], "msg.recv", (), "", None),
        (NODES[0], "txn.decide", (0,), TX, {}),
        (NODES[2], "marker.owed", (1,), TX, {"tp": "t-0", "committed": True}),
    )
    events = by_position(recording.events)
    assert [event.i for event in cause_path(events, events[2])] == [2, 0]


def test_both_views_of_an_open_transaction_stand_side_by_side() -> None:
    recording = small(NODES, LEADS, completed_move("Ongoing", "t-0"), APPENDED, OPENED)
    followed_trace = FollowedTrace.of_recording(recording)
    (mismatch,) = mismatches(judge_cluster(followed_trace.facts()), followed_trace)
    assert (mismatch.partition, mismatch.first, mismatch.state) == ("t-0", 0, "Ongoing")
    assert mismatch.verdict is OpenTxnStatus.ALIVE
