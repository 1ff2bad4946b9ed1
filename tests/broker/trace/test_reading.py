from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.small_trace import small
from txnsim.errors import BadInputError
from txnsim.trace.reading import by_position, causes, read, recording

HEADER = b'{"k":"run","schema":2,"nodes":["broker/1"],"level":"brief"}'
EVENT = b'{"i":4,"t":0,"n":0,"l":1,"p":[],"k":"node.up"}'
TRAILER = b'{"k":"end","events":5,"hash":"sha256:0","verdict":"healthy"}'


def test_a_file_is_header_events_trailer(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join((HEADER, EVENT, TRAILER, b"")))
    run = read(path)
    assert (run.nodes, run.level) == (("broker/1",), "brief")
    assert [event.i for event in run.events] == [4]
    assert run.trailer["verdict"] == "healthy"


def test_a_file_of_schema_1_is_read() -> None:
    """As txnsim 0.1 wrote it: a short header, the number of an API on links, no importance."""
    header = (
        b'{"k":"run","schema":1,"sim":"0.1.0","scenario":"late-marker","seed":7,'
        b'"set":{"run":"v2","mode":"TV2","take":"armed"},"clock":"virtual","first":0,'
        b'"nodes":["client/app","broker/1"]}'
    )
    sent = (
        b'{"i":0,"t":5,"n":1,"l":1,"p":[],"k":"msg.send","d":{"api":27,"version":2,'
        b'"correlation":4,"peer":"broker/2","response":false}}'
    )
    written = (
        b'{"i":1,"t":9,"n":1,"l":2,"p":[0],"k":"marker.written","tx":"app/7:0","d":{"tp":"t-0"}}'
    )
    run = recording("old", [header, sent, written, TRAILER])
    assert (run.nodes, run.level) == (("client/app", "broker/1"), "full")
    assert [(event.k, event.p, event.tx) for event in run.events] == [
        ("msg.send", (), ""),
        ("marker.written", (0,), "app/7:0"),
    ]


def test_a_file_whose_writer_was_stopped_has_no_trailer() -> None:
    assert recording("a", [HEADER, EVENT]).trailer == {}


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
        recording("a", lines)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="No such file"):
        read(tmp_path / "none")


def test_events_up_to_a_position() -> None:
    run = recording("a", [HEADER, EVENT])
    assert run.through(None) == run.through(4) == run.events
    for position in (3, 5):
        with pytest.raises(BadInputError, match=f"there is no event {position}: .* 4 to 4"):
            run.through(position)


def test_a_chain_of_causes_ends_at_its_root_or_at_what_a_ring_has_dropped() -> None:
    run = small(
        ("a",),
        ("a", "note", (), "", None),
        ("a", "note", (0,), "", None),
        ("a", "note", (1, 0), "", None),
    )
    events = by_position(run.events)
    assert [event.i for event in causes(events, events[2])] == [2, 1, 0]
    del events[0]
    assert [event.i for event in causes(events, events[2])] == [2, 1]
