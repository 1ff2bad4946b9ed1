from __future__ import annotations

from tests.support.stories import call, told

MARKERS = {"id": "slow", "point": "peer.request", "api": "WriteTxnMarkers", "topic": "t"}
FIRST = [
    call("init-producer-id"),
    call("begin"),
    call("add-partitions", partitions="t-0"),
    call("produce", partition="t-0", value="r1"),
    {"arm": {**MARKERS, "action": {"do": "delay", "delay_ms": 300}}},
    call("commit"),
    call("begin"),
]


def test_what_passes_is_asked_again_unless_the_story_wants_the_first_answer() -> None:
    patient = [*FIRST, call("add-partitions", partitions="t-0"), call("abort")]
    assert told(patient).as_declared
    add = {"partitions": "t-0", "error": "CONCURRENT_TRANSACTIONS"}
    assert told([*FIRST, call("add-partitions", **add)]).as_declared
    once = call("add-partitions", partitions="t-0", once=True)
    result = told([*FIRST, once])
    assert "CONCURRENT_TRANSACTIONS" in result.verdict.because[0]
