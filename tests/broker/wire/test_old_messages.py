"""Messages of the formats 0 and 1."""

from __future__ import annotations

import pytest

from tests.support.old_messages import old_message
from txnsim.wire.old_messages import is_old, is_sound, offset_of, size_of


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_message_is_known_by_its_first_bytes(magic: int) -> None:
    message = old_message(magic, 42)
    assert is_old(message)
    assert (size_of(message), offset_of(message)) == (len(message), 42)
    assert is_sound(message)


def test_a_flipped_bit_shows() -> None:
    message = bytearray(old_message(1, 42))
    message[-1] ^= 1
    assert not is_sound(message)


def test_zeros_are_no_message() -> None:
    assert not is_old(bytes(61))
