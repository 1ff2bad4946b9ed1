"""Properties by name, a listener's own first."""

from __future__ import annotations

import pytest

from txnsim.config.lookup import Lookup, WrongValueError
from txnsim.config.properties import Property


def entries(**values: str) -> dict[str, Property]:
    return {
        name: Property(line=line, name=name, value=value)
        for line, (name, value) in enumerate(values.items(), start=1)
    }


def test_a_listeners_own_property_counts_before_the_common_one() -> None:
    given = Lookup(entries(**{"p.a": "1", "a": "2", "b": "3", "c": "4"}), prefix="p.")
    assert (given.text("a"), given.text("b"), given.text("d")) == ("1", "3", None)
    assert given.own("b") is None
    assert given.used == {"p.a", "a", "b"}


def test_values_of_several_kinds() -> None:
    given = Lookup(entries(list=" a, ,b", word="Yes", number=" 7", empty=" "))
    assert given.names("list") == ("a", "b")
    assert given.names("none") == ()
    assert given.text("empty") is None
    assert given.choice("word", {"yes": 1, "no": 2}, 0) == 1
    assert given.choice("none", {"yes": 1}, 0) == 0
    assert (given.number("number", 1), given.number("none", 1)) == (7, 1)


def test_what_is_none_is_refused_with_its_entry() -> None:
    given = Lookup(entries(word="perhaps", number="-1"))
    with pytest.raises(WrongValueError, match="expected yes, no, found 'perhaps'") as wrong:
        given.choice("word", {"yes": 1, "no": 2}, 0)
    assert wrong.value.entry.line == 1
    with pytest.raises(WrongValueError, match="expected a whole number from 0"):
        given.number("number", 0)
