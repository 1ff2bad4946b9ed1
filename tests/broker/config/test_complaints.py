"""pydantic's errors in words."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from txnsim.config.complaints import in_words, members_of, place_of, without_other_kinds


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    color: Literal["red", "green"] = "red"
    maybe: Literal["on", "off"] | None = None
    name: Annotated[str, Field(pattern="^[a-z]+$")] = "a"


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    size: Annotated[float, Field(gt=0, lt=10)] = 1
    inner: Inner | None = None
    several: list[Inner] = []
    needed: bool
    raw: bytes = b""
    table: dict[str, Literal["on", "off"]] = {}


def said(given: object) -> list[str]:
    with pytest.raises(ValidationError) as refused:
        Outer.model_validate(given)
    return [
        f"{'.'.join(map(str, place_of(detail)))}: {in_words(detail, model=Outer)}"
        for detail in refused.value.errors()
    ]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, "needed: is missing"),
        (
            {"needed": True, "table": {"x": 1}},
            "table.x: expected one of on, off, found 1",
        ),
        ({"needed": "yes"}, "needed: expected true or false, found 'yes'"),
        ({"needed": True, "size": 0}, "size: expected more than 0, found 0"),
        ({"needed": True, "size": 10}, "size: expected less than 10, found 10"),
        ({"needed": True, "inner": 3}, "inner: expected fields, as NAME: VALUE, found 3"),
        ({"needed": True, "several": 3}, "several: expected a list, found 3"),
        (
            {"needed": True, "inner": {"colour": "red"}},
            "inner.colour: no field 'colour'; did you mean color? there are: color, maybe, name",
        ),
        (
            {"needed": True, "inner": {"color": "gren"}},
            "inner.color: no value 'gren'; did you mean green? there are: red, green",
        ),
        (
            {"needed": True, "inner": {"color": 1}},
            "inner.color: expected one of red, green, found 1",
        ),
        (
            {"needed": True, "inner": {"maybe": "onn"}},
            "inner.maybe: no value 'onn'; did you mean on?",
        ),
        (
            {"needed": True, "inner": {"name": "A"}},
            "inner.name: expected a text of the form ^[a-z]+$",
        ),
        ({"needed": True, "raw": 1}, "raw: Input should be a valid bytes, not 1"),
    ],
)
def test_each_mistake_in_words(given: object, wanted: str) -> None:
    assert said(given)[0].startswith(wanted), said(given)


class Held(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    call: str
    again: Held | None = None


class OneOfSeveral(BaseModel):
    awaited: str | Held
    other: int = 0


def test_kinds_that_may_stand_for_one_another_are_no_part_of_a_place() -> None:
    members = members_of(OneOfSeveral)
    assert members == {"str", "Held", "NoneType"}
    with pytest.raises(ValidationError) as refused:
        OneOfSeveral.model_validate({"awaited": {"cal": "x"}, "other": "x"})
    found = [
        (place_of(detail, members), in_words(detail, model=OneOfSeveral))
        for detail in refused.value.errors()
    ]
    assert (("awaited",), "expected a text, found {'cal': 'x'}") in found
    assert sorted(without_other_kinds(found)) == [
        (("awaited", "cal"), "no field 'cal'; did you mean call? there are: call, again"),
        (("awaited", "call"), "is missing"),
        (("other",), "expected a whole number, found 'x'"),
    ]
