"""What a coordinator is asked and answers: frozen values all the way down."""

from __future__ import annotations

import msgspec
import pytest

from txnsim.txn import commands

STRUCTS = [
    value
    for value in vars(commands).values()
    if isinstance(value, type)
    and issubclass(value, msgspec.Struct)
    and value.__module__ == commands.__name__
]


@pytest.mark.parametrize("struct", STRUCTS)
def test_values_can_not_be_changed_and_their_fields_can_not_be_swapped(
    struct: type[msgspec.Struct],
) -> None:
    assert struct.__struct_config__.frozen
    if struct.__struct_fields__:
        with pytest.raises(TypeError, match="positional"):
            struct(*range(len(struct.__struct_fields__)))


def test_a_plain_init_producer_id_expects_no_identity() -> None:
    command = commands.InitProducerId(transactional_id=None, timeout_ms=1)
    assert command.expected is None
    assert not command.enable_two_phase_commit
    assert not command.keep_prepared
