from __future__ import annotations

from tests.support.stories import call, observations_of, play_steps, sentences
from txnsim_lab.check.observations import Wrote


def append(**batch_fields: object) -> dict[str, object]:
    return call("append", "bystander", partition="t-0", **batch_fields)


def test_a_bystander_writes_named_records_and_many() -> None:
    steps = [
        append(values=["a", "b"], key="k", offset=0),
        append(value="u", count=7, keys=3, offset=2),
        append(values=list("cdefgh")),
    ]
    result = play_steps(steps)
    assert result.as_declared, result.verdict
    writes = observations_of(result, Wrote)
    assert [wrote_record.offset for wrote_record in writes] == list(range(15))
    assert [(wrote_record.value, wrote_record.key) for wrote_record in writes[:4]] == [
        ("a", "k"), ("b", "k"), ("u-0", "key-0"), ("u-1", "key-1"),
    ]  # fmt: skip
    assert writes[5].key == "key-0"
    told_of = sentences(result)
    assert "bystander: a, b acknowledged at 0, 1" in told_of
    assert "7 records acknowledged, the last at 8" in told_of
    assert "6 records acknowledged, the last at 14" in told_of


def test_what_it_is_refused_is_told() -> None:
    error_rule = {"id": "f", "point": "client.request", "api": "Produce",
            "action": {"do": "error", "error": "TOPIC_AUTHORIZATION_FAILED"}}  # fmt: skip
    refused_step = append(value="x", error="TOPIC_AUTHORIZATION_FAILED")
    result = play_steps([{"arm": error_rule}, refused_step])
    assert result.as_declared, result.verdict
    assert [observation.outcome for observation in observations_of(result, Wrote)] == ["failed"]
