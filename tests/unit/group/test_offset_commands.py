"""What groups are asked about positions: frozen values."""

from __future__ import annotations

import msgspec
import pytest

from txnsim.group import offset_commands

STRUCTS = [
    value
    for value in vars(offset_commands).values()
    if isinstance(value, type)
    and issubclass(value, msgspec.Struct)
    and value.__module__ == offset_commands.__name__
]


@pytest.mark.parametrize("struct", STRUCTS)
def test_values_can_not_be_changed_and_their_fields_can_not_be_swapped(
    struct: type[msgspec.Struct],
) -> None:
    assert struct.__struct_config__.frozen
    with pytest.raises(TypeError, match="positional"):
        struct(*range(len(struct.__struct_fields__)))
