"""Damaged bytes: the same noise does the same harm, and only where it should."""

from __future__ import annotations

import zlib

import pytest

from txnsim.faults.crossings import Damage, DamagedPart
from txnsim.faults.damage import BATCH_HEADER_BYTES, CRC_OFFSET, damaged

BATCH = bytes(range(BATCH_HEADER_BYTES)) + b"records"
BODY = b"\0\0\0\1head" + BATCH + b"tail"
MESSAGE = len(BODY).to_bytes(4, "big") + BODY
NOISES = [bytes(16), b"\xff" * 16, bytes(range(16)), bytes(range(200, 216))]


def differing(message: bytes) -> list[int]:
    return [at for at in range(len(MESSAGE)) if message[at] != MESSAGE[at]]


@pytest.mark.parametrize("noise", NOISES)
def test_a_damaged_length_says_fewer_bytes_than_there_are(noise: bytes) -> None:
    message = damaged(MESSAGE, Damage(part=DamagedPart.LENGTH, noise=noise), batch=None)
    assert 0 <= int.from_bytes(message[:4], "big") < len(BODY)
    assert message[4:] == BODY


@pytest.mark.parametrize("noise", NOISES)
def test_a_damaged_crc_is_one_byte_of_the_first_batch(noise: bytes) -> None:
    message = damaged(MESSAGE, Damage(part=DamagedPart.CRC, noise=noise), batch=BATCH)
    start = MESSAGE.index(BATCH) + CRC_OFFSET
    assert len(differing(message)) == 1
    assert start <= differing(message)[0] < start + 4


@pytest.mark.parametrize("noise", NOISES)
def test_some_bytes_anywhere_but_in_the_length_are_changed(noise: bytes) -> None:
    message = damaged(MESSAGE, Damage(part=DamagedPart.BYTES, noise=noise), batch=None)
    assert len(message) == len(MESSAGE)
    assert len(differing(message)) == 4
    assert min(differing(message)) >= 4
    short = damaged(b"\0\0\0\2ab", Damage(part=DamagedPart.BYTES, noise=noise), batch=None)
    assert short[:4] == b"\0\0\0\2"
    assert (short[4:5] != b"a", short[5:] != b"b") == (True, True)
    again = damaged(MESSAGE, Damage(part=DamagedPart.BYTES, noise=noise), batch=None)
    assert zlib.crc32(again) == zlib.crc32(message), "chance is in the noise alone"
