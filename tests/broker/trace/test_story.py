"""Traces as stories: how they are read and told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from txnsim.errors import BadInputError
from txnsim.runtime.trace import Event
from txnsim.trace.story import Sentence, node_label, story
from txnsim.trace.trace_file import Recording

NODES = ("scenario", "reader", "broker/3/txn/1", "broker/1/log/t-0", "broker/1", "fault")
SCENARIO, READER, COORDINATOR, LOG, BROKER, FAULT = range(len(NODES))


class Script:
    """Collects the events of a trace."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(
        self, node_id: int, kind: str, *parents: int, tx: str = "app/7:0", data: object = None
    ) -> int:
        index = len(self.events)
        self.events.append(Event(index, index * 1000, node_id, index, parents, kind, tx, data))
        return index

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        return story(self.events, NODES)

    @property
    def texts(self) -> list[str]:
        return [sentence.text for sentence in self.sentences]


def state(state_name: str, **state_fields: Any) -> dict[str, Any]:
    return {
        "state": state_name,
        "pid": 7,
        "epoch": 0,
        "last_epoch": -1,
        "partitions": [],
        **state_fields,
    }


def batch(**batch_fields: Any) -> dict[str, Any]:
    return {"tp": "t-0", "pid": 7, "epoch": 0, "base": 1, "txn": True, **batch_fields}


def test_the_storys_own_sentences_are_told_and_others_have_time_and_place() -> None:
    script = Script()
    script.add(SCENARIO, "note", data={"text": "It  is\nreleased.\n"})
    script.add(READER, "note", data={"text": "brings nothing"})
    assert script.sentences == (
        Sentence(at_ms=0, who="scenario", text="It is released.", is_narrated=True),
        Sentence(at_ms=1, who="reader", text="brings nothing"),
    )


@pytest.mark.parametrize(
    ("node_name", "name"),
    [
        ("broker/3/txn/1", "coordinator (broker 3)"),
        ("broker/1/log/t-0", "t-0 (broker 1)"),
        ("broker/1", "broker 1"),
        ("client/app", "client app"),
        ("fault", "fault"),
        ("broker/1/group/3", "broker/1/group/3"),
    ],
)
def test_places_have_the_names_that_people_use(node_name: str, name: str) -> None:
    assert node_label(node_name) == name


def test_a_state_on_the_way_is_told_only_where_the_way_ends_there() -> None:
    script = Script()
    script.add(COORDINATOR, "txn.complete", data=state("Empty"))
    script.add(COORDINATOR, "txn.complete", data=state("Ongoing", partitions=["t-0"]))
    script.add(COORDINATOR, "txn.complete", data=state("PrepareAbort", partitions=["t-0"]))
    stuck_sentence = "app (producer 7, epoch 0) is PrepareAbort with t-0"
    assert script.texts == ["app (producer 7, epoch 0) is Ongoing with t-0", stuck_sentence]
    script.add(COORDINATOR, "txn.complete", tx="app/7:1", data=state("CompleteAbort", epoch=1))
    assert script.texts[1:] == ["app (producer 7, epoch 1) is CompleteAbort"]


def test_a_transaction_that_completes_without_having_prepared_is_told() -> None:
    script = Script()
    script.add(COORDINATOR, "txn.complete", data=state("CompleteCommit"))
    assert script.texts == ["app (producer 7, epoch 0) is CompleteCommit"]


def test_a_new_epoch_after_a_transaction_is_told() -> None:
    script = Script()
    script.add(COORDINATOR, "txn.complete", data=state("Empty", epoch=1, last_epoch=0))
    assert script.texts == ["app goes on with epoch 1"]


def test_a_marker_says_what_it_does_to_the_last_stable_offset() -> None:
    script = Script()
    marker = {"pid": 7, "epoch": 0, "committed": False, "offset": 1}
    script.add(LOG, "marker.written", data=marker)
    script.add(LOG, "log.lso", data={"to": 2})
    script.add(LOG, "log.lso", data={"to": 3})
    assert script.texts == [
        "ABORT marker (producer 7, epoch 0) at offset 1; the last stable offset is 2"
    ]
    script.add(LOG, "marker.written", data={**marker, "committed": True, "offset": 3})
    script.add(LOG, "log.append", data=batch(base=4))
    script.add(LOG, "log.lso", data={"to": 4})
    assert script.texts[1:] == [
        "COMMIT marker (producer 7, epoch 0) at offset 3",
        "a batch (producer 7, epoch 0) is at offset 4",
    ]


def test_plain_batches_and_what_is_not_in_the_table_go_without_saying() -> None:
    script = Script()
    script.add(LOG, "log.append", data=batch(txn=False))
    script.add(LOG, "log.lso", data={"to": 2})
    script.add(BROKER, "verify.answer", data=batch(error="NONE"))
    script.add(BROKER, "msg.recv")
    script.add(FAULT, "fault.arm", data={"rule": "late"})
    assert script.sentences == ()


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("log.append", batch(opened=True), "{} opens a transaction at offset 1"),
        ("log.append", batch(opened=False), "{} is at offset 1"),
        ("log.duplicate", batch(), "{} is there already, at offset 1"),
        (
            "log.reject",
            batch(error="INVALID_PRODUCER_EPOCH", reason="0 is below 1"),
            "{} is refused with INVALID_PRODUCER_EPOCH: 0 is below 1",
        ),
        (
            "verify.answer",
            batch(error="INVALID_TXN_STATE"),
            "{} for t-0 is refused: asked, the coordinator says INVALID_TXN_STATE",
        ),
    ],
)
def test_what_a_release_has_brought_about_is_told_as_such(
    kind: str, data: dict[str, Any], text: str
) -> None:
    script = Script()
    script.add(LOG, kind, data=data)
    release = script.add(FAULT, "fault.release", data={"rule": "late"})
    ask_event = script.add(BROKER, "verify.ask", release)
    script.add(LOG, kind, ask_event, data=data)
    identity_text = "batch (producer 7, epoch 0)"
    assert script.texts == [
        text.format(f"a {identity_text}"),
        text.format(f"the released {identity_text}"),
    ]


def test_attempts_that_fare_alike_are_told_once() -> None:
    script = Script()
    script.add(LOG, "log.reject", data=batch(error="X", reason="y"))
    script.add(LOG, "log.reject", data=batch(error="X", reason="y"))
    assert len(script.sentences) == 1


def test_strikes_inside_a_broker_and_on_the_cluster_are_told() -> None:
    script = Script()
    inside = {
        "rule": "slow", "action": "hold", "point": "log.append", "source": "broker/1",
        "target": "broker/1",
    }  # fmt: skip
    script.add(FAULT, "fault.hit", data=inside)
    script.add(FAULT, "fault.hit", data=inside)
    script.add(FAULT, "fault.hit", data={**inside, "rule": "seen", "action": "pass"})
    script.add(FAULT, "fault.hit", data={"rule": "dead", "action": "crash broker 2"})
    assert script.texts == [
        "hold at log.append of broker 1",
        "hold again at log.append of broker 1",
        "crash broker 2",
    ]


def test_strikes_are_told_but_not_those_of_a_rule_that_only_counts() -> None:
    script = Script()
    hit = {"rule": "late", "action": "hold", "api": "Produce", "source": "client/app"}
    script.add(FAULT, "fault.hit", data=hit)
    script.add(FAULT, "fault.hit", data=hit)
    script.add(FAULT, "fault.hit", data={**hit, "rule": "late-answered"})
    assert script.texts == ["hold Produce of app", "hold another Produce of app"]


def test_a_refused_marker_is_told() -> None:
    script = Script()
    script.add(LOG, "marker.refused", data={"pid": 7, "epoch": 0, "error": "X"})
    assert script.texts == ["refuses a marker (producer 7, epoch 0): X"]


def test_an_event_without_payload_does_no_harm() -> None:
    script = Script()
    script.add(LOG, "marker.refused")
    assert script.texts == ["refuses a marker: None"]


HEADER = b'{"k":"run","schema":2,"nodes":["broker/1"],"level":"brief"}'
EVENT = b'{"i":4,"t":0,"n":0,"l":1,"p":[],"k":"node.up"}'
TRAILER = b'{"k":"end","events":5,"hash":"sha256:0","verdict":"healthy"}'


def test_a_file_is_header_events_trailer(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join((HEADER, EVENT, TRAILER, b"")))
    recording = Recording.read(path)
    assert (recording.nodes, recording.level) == (("broker/1",), "brief")
    assert [event.i for event in recording.events] == [4]
    assert recording.trailer["verdict"] == "healthy"


def test_a_file_of_schema_1_is_read() -> None:
    """As txnsim 0.1 wrote it: a short header, the number of an API on links, no importance."""
    header = (
        b'{"k":"run","schema":1,"sim":"0.1.0","scenario":"late-marker","seed":7,'
        b'"set":{"run":"v2","mode":"TV2","take":"armed"},"clock":"virtual","first":0,'
        b'"nodes":["client/app","broker/1"]}'
    )
    sent_event = (
        b'{"i":0,"t":5,"n":1,"l":1,"p":[],"k":"msg.send","d":{"api":27,"version":2,'
        b'"correlation":4,"peer":"broker/2","response":false}}'
    )
    written_event = (
        b'{"i":1,"t":9,"n":1,"l":2,"p":[0],"k":"marker.written","tx":"app/7:0","d":{"tp":"t-0"}}'
    )
    recording = Recording.from_lines("old", [header, sent_event, written_event, TRAILER])
    assert (recording.nodes, recording.level) == (("client/app", "broker/1"), "full")
    assert [(event.k, event.p, event.tx) for event in recording.events] == [
        ("msg.send", (), ""),
        ("marker.written", (0,), "app/7:0"),
    ]


@pytest.mark.parametrize("start", [b'{"k":"run","nodes":', b'{"k":"end","hash":', b'{"i":0,"d":'])
def test_a_line_that_is_nested_without_an_end_is_no_line_of_a_trace(start: bytes) -> None:
    nested = start + b"[" * 100_000 + b"]" * 100_000 + b"}"
    lines = [nested] if b'"run"' in start else [HEADER, nested]
    with pytest.raises(BadInputError, match=r"of a trace|begins with its header"):
        Recording.from_lines("a", lines)


def test_a_file_whose_writer_was_stopped_has_no_trailer() -> None:
    assert Recording.from_lines("a", [HEADER, EVENT]).trailer == {}


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([], "a: it is empty"),
        ([EVENT], "a, line 1: a trace begins with its header"),
        ([b"nonsense"], "a, line 1: a trace begins with its header"),
        ([b'{"k":"run","schema":9,"nodes":[]}'], "a, line 1: schema 9 is unknown here"),
        ([HEADER, b"nonsense"], "a, line 2: no event of a trace"),
        ([HEADER, EVENT.replace(b'"n":0', b'"n":1')], "a, line 2: node 1 is none of the header's"),
        ([HEADER, TRAILER, EVENT], "a, line 3: something follows the trailer"),
    ],
)
def test_what_is_no_trace_is_refused_with_its_line(lines: list[bytes], complaint: str) -> None:
    with pytest.raises(BadInputError, match=complaint):
        Recording.from_lines("a", lines)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="No such file"):
        Recording.read(tmp_path / "none")


def test_events_up_to_a_position() -> None:
    recording = Recording.from_lines("a", [HEADER, EVENT])
    assert recording.events_through(None) == recording.events_through(4) == recording.events
    for position in (3, 5):
        with pytest.raises(BadInputError, match=f"there is no event {position}: .* 4 to 4"):
            recording.events_through(position)
