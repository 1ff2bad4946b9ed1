from __future__ import annotations

from tests.support.stories import call, seen, told
from txnsim_lab.check.observations import Wrote


def test_everybody_is_a_client_of_a_name_of_its_own() -> None:
    """A rule tells them apart by it."""
    drop = {"id": "d", "point": "client.request", "api": "Produce", "client_id": "bystander",
            "action": {"do": "error", "error": "INVALID_RECORD"}}  # fmt: skip
    append = call("append", "bystander", partition="t-0", value="x", error="INVALID_RECORD")
    steps = [
        {"arm": drop},
        call("init-producer-id"),
        call("produce", partition="t-0", value="y", plain=True),
        append,
    ]
    result = told(steps)
    assert result.as_declared, result.verdict
    assert [(one.who, one.outcome) for one in seen(result, Wrote)] == [
        ("P", "ok"), ("bystander", "failed"),
    ]  # fmt: skip
