"""What is wrong with what people have written."""

from __future__ import annotations

import uuid
from typing import Annotated, Literal

import msgspec
import pytest

from txnsim.faults.plan import FaultRule
from txnsim.mistakes import WrongValueError, converted

HELD = {"id": "late", "point": "peer.request", "action": {"do": "hold"}}


class Odd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    rows: tuple[int, ...] = ()
    word: Literal["a", "b"] = "a"
    size: Annotated[int, msgspec.Meta(ge=1)] = 1
    many: dict[str, int] = {}
    either: int | bool | None = None
    raw: uuid.UUID | None = None
    stamp: object = None
    inner: FaultRule | None = None


def said(given: object, kind: type = FaultRule) -> list[str]:
    with pytest.raises(WrongValueError) as refused:
        converted(given, kind)
    return str(refused.value).splitlines()


def test_what_is_right_is_converted() -> None:
    assert converted(HELD, FaultRule).id == "late"


def test_all_mistakes_are_named_at_once_with_what_was_meant() -> None:
    first, second, third, fourth = said(
        {"id": 7, "point": "peer.reqest", "transactionalId": "x", "action": {"do": "dropp"}}
    )
    assert first.startswith(
        "transactionalId: no field 'transactionalId'; did you mean transactional_id?"
    )
    assert second == "id: expected a text, found 7"
    assert third.startswith("point: no value 'peer.reqest'; did you mean peer.request? there are: ")
    assert fourth.startswith("action.do: no action 'dropp'; did you mean drop? there are: ")


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"action": {}}, "action: do is missing; there are: "),
        ({"action": {"do": "delay"}}, "action: delay_ms is missing"),
        (
            {"action": {"do": "delay", "delay_ms": 0.5}},
            "action.delay_ms: expected a whole number, found 0.5",
        ),
        ({"action": {"do": "delay", "delay_ms": -1}}, "action: delay_ms"),
        (
            {"action": {"do": "error", "error": "FENCED_PRODUCER"}},
            "action: no Kafka error 'FENCED_PRODUCER'; did you mean PRODUCER_FENCED?",
        ),
        ({"action": "hold"}, 'action: \'hold\' is a name alone: say {"do": "hold"}'),
        ({"occurrences": [1, "x"]}, "occurrences.2: expected a whole number, found 'x'"),
        ({"occurrences": 3}, "occurrences: expected a list, found 3"),
        ({"api": []}, "api: expected a text or a whole number, found []"),
        ({"committed": "yes"}, "committed: expected true or false, found 'yes'"),
        ({"probability": 2}, "probability is 2"),
    ],
)
def test_each_kind_of_mistake(change: dict[str, object], wanted: str) -> None:
    (line,) = said({**HELD, **change})
    assert line.startswith(wanted), line


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"word": "c"}, "word: no value 'c'; there are: a, b"),
        ({"word": 1}, "word: "),
        ({"size": 0}, "size: expected a whole number >= 1, found 0"),
        ({"many": 1}, "many: expected fields, as NAME: VALUE, found 1"),
        ({"either": "x"}, "either: expected a whole number or true or false, found 'x'"),
        ({"raw": 1}, "raw: Expected `uuid | null`, got `int`"),
        ({"inner": {}}, "inner: id is missing"),
        ([], "expected fields, as NAME: VALUE, found []"),
    ],
)
def test_other_types(given: object, wanted: str) -> None:
    assert said(given, Odd)[0].startswith(wanted)


def test_an_element_of_a_list_is_told_by_its_id_too() -> None:
    lines = said([HELD, {**HELD, "nth": "x"}, {"id": 3}], list[FaultRule])
    assert lines[0] == "2 (late).nth: expected a whole number, found 'x'"
    assert lines[1].startswith("3: ")


def test_a_long_list_is_left_out_where_something_near_is_named() -> None:
    many = msgspec.defstruct(
        "Many", [(f"field_{index}", int, 0) for index in range(50)], forbid_unknown_fields=True
    )
    assert said({"field_x": 1}, many)[0].endswith("?")


@pytest.mark.parametrize("tag", [{}, [1], 5, None, "x" * 100_000])
def test_what_is_done_may_be_no_word_at_all(tag: object) -> None:
    (wrong,) = said({**HELD, "action": {"do": tag}}, FaultRule)
    assert wrong.startswith("action.do: no action ")
    assert len(wrong) < 500


def test_a_word_in_place_of_an_action_is_told_how_to_say_it() -> None:
    assert said({**HELD, "action": "hold"}) == [
        'action: \'hold\' is a name alone: say {"do": "hold"}'
    ]
    assert said({**HELD, "action": "dropp"})[0].startswith("action: expected ")


def test_of_many_mistakes_some_are_named() -> None:
    assert len(said({**HELD, **{f"x{index}": 1 for index in range(1_000)}}, FaultRule)) == 20
    assert len(said([{}] * 1_000, tuple[FaultRule, ...])) == 20
