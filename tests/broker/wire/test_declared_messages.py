"""Message classes from a few words per field."""

from __future__ import annotations

import pytest

from txnsim.wire._declared_messages import message, remake_class, versions
from txnsim.wire._schema import REQUIRED, describe
from txnsim.wire.decoder import reader
from txnsim.wire.encoder import writer


def test_a_field_has_what_its_line_says() -> None:
    inner = message("Inner", "One.", "number int8")
    cls = message(
        "Outer",
        "Some.",
        "name string?",
        "inner []Inner",
        "more Inner? tag 3 = NOTHING",
        "ids []uuid = ()",
        types={"Inner": inner, "NOTHING": None},
        class_attributes={"__api_key__": 7},
    )
    assert (cls.__name__, cls.__doc__, cls.__api_key__) == ("Outer", "Some.", 7)
    rows = describe(cls)
    assert rows.flexible
    name, array_row, ids_row = rows.plain
    assert (name.kind, name.nullable, name.default) == ("string", True, REQUIRED)
    assert (array_row.entity, array_row.array, array_row.nullable) == (inner, True, False)
    assert (ids_row.kind, ids_row.array, ids_row.default) == ("uuid", True, ())
    (tagged_row,) = rows.tagged
    assert (tagged_row.entity, tagged_row.nullable, tagged_row.tag, tagged_row.default) == (
        inner,
        True,
        3,
        None,
    )


def test_a_version_has_the_fields_that_were_there() -> None:
    inner = versions("Inner", "One.", "a int8", "b int8 1+ = 5", flexible_since=2, newest_version=2)
    classes = versions(
        "Value",
        "Some.",
        "always int32",
        "once int32 1 = -1",
        "inner Inner 2+",
        flexible_since=2,
        newest_version=2,
        types={"Inner": inner},
    )
    names = [[row.name for row in describe(cls).plain] for cls in classes]
    assert names == [["always"], ["always", "once"], ["always", "inner"]]
    assert [cls.__flexible__ for cls in classes] == [False, False, True]
    assert describe(classes[2]).plain[1].entity is inner[2]
    assert [cls.__name__ for cls in classes] == ["ValueV0", "ValueV1", "ValueV2"]


def test_a_class_remade_has_the_same_fields_and_other_elements() -> None:
    api = {"__version__": 1, "__api_key__": 7, "__header_schema__": None}
    element = message("Element", "One.", "number int8", class_attributes=api)
    outer = message(
        "Outer",
        "Some.",
        "elements []Element",
        "ids []int32 = ()",
        "more int16 tag 3 = 5",
        types={"Element": element},
        class_attributes=api,
    )
    other_element = remake_class(element, version=0, flexible=False)
    remade_outer = remake_class(outer, other_element, version=0, flexible=False)
    assert (remade_outer.__name__, remade_outer.__doc__, remade_outer.__api_key__) == (
        "Outer",
        "Some.",
        7,
    )
    assert (remade_outer.__version__, remade_outer.__flexible__, outer.__version__) == (0, False, 1)
    assert describe(remade_outer).plain[0].entity is other_element
    assert describe(remake_class(outer)).plain == describe(outer).plain
    assert describe(remake_class(outer)).tagged == describe(outer).tagged
    wider = remake_class(outer, extra_lines=("name string = ''", "later int8 3+ = 0"), version=2)
    assert [row.name for row in describe(wider).plain] == ["elements", "ids", "name"]


def test_its_bytes_are_those_of_any_message() -> None:
    cls = message("Pair", "Two.", "name string", "number int16 = 3", is_flexible=False)
    encoded_pieces: list[bytes] = []
    writer(cls)(cls(name="ab"), encoded_pieces.append)
    data = b"".join(encoded_pieces)
    assert data == b"\x00\x02ab\x00\x03"
    assert reader(cls)(data, 0, len(data)) == (cls(name="ab", number=3), len(data))


@pytest.mark.parametrize("line", ["name", "name string since 3", "name [string]", "", "a int8 = "])
def test_a_line_that_says_something_else_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match="not a field of a message"):
        message("Wrong", "", line)
