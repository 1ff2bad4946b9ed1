"""Damages the bytes of a message on a connection (``faults.actions.Corrupt``).

Pure: randomness is passed in as ``noise``, drawn from the run's seed, and the same noise damages
the same message in the same way.
"""

from __future__ import annotations

from typing import Final, assert_never

from txnsim.faults.interception import Damage, DamagedPart

CRC_OFFSET: Final = 17
"""Offset of the CRC in a record batch (magic 2): after base offset, length, leader epoch and
magic.
"""
BATCH_HEADER_BYTES: Final = 61
SIZE_BYTES: Final = 4
"""Size of the length prefix of a message."""
SCRAMBLED_BYTES: Final = 4
"""Number of changed bytes if the damage may be anywhere."""


def damage_message(message: bytes, damage: Damage, *, batch: bytes | None) -> bytes:
    """Damage a part of a whole message, which includes its length prefix.

    Returns:
        As many bytes as before; a damaged length says fewer.
    """
    noise = damage.noise
    match damage.part:
        case DamagedPart.LENGTH:
            body_size = len(message) - SIZE_BYTES
            return (body_size - _number_below(noise, body_size) - 1).to_bytes(
                SIZE_BYTES, "big"
            ) + message[SIZE_BYTES:]
        case DamagedPart.CRC:
            assert batch is not None  # what carries none is not struck (``plan.matches``)
            position = message.index(batch[:BATCH_HEADER_BYTES]) + CRC_OFFSET
            return _change_byte(message, position + noise[0] % 4, noise[1])
        case DamagedPart.BYTES:
            body_size = len(message) - SIZE_BYTES
            changed_positions: list[int] = []
            for change_number in range(min(SCRAMBLED_BYTES, body_size)):
                noise_start = 3 * change_number
                position = _number_below(noise[noise_start:], body_size)
                while position in changed_positions:
                    position = (position + 1) % body_size
                changed_positions.append(position)
                message = _change_byte(message, SIZE_BYTES + position, noise[noise_start + 2])
            return message
    assert_never(damage.part)


def _number_below(noise: bytes, upper_bound: int) -> int:
    """A number below ``upper_bound``, taken from the noise."""
    return int.from_bytes(noise[:2], "big") % upper_bound


def _change_byte(message: bytes, position: int, change_mask: int) -> bytes:
    new_byte = message[position] ^ (change_mask or 1)
    return message[:position] + bytes((new_byte,)) + message[position + 1 :]
