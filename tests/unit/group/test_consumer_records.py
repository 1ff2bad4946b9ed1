"""What groups of the consumer protocol are asked and remember: frozen values."""

from __future__ import annotations

import msgspec
import pytest

from txnsim.group import consumer_records

STRUCTS = [
    value
    for value in vars(consumer_records).values()
    if isinstance(value, type)
    and issubclass(value, msgspec.Struct)
    and value.__module__ == consumer_records.__name__
]


@pytest.mark.parametrize("struct", STRUCTS)
def test_values_can_not_be_changed_and_their_fields_can_not_be_swapped(
    struct: type[msgspec.Struct],
) -> None:
    assert struct.__struct_config__.frozen
    with pytest.raises(TypeError, match="positional"):
        struct(*range(len(struct.__struct_fields__)))
