"""Prefixes for names that do not change a broker's answers. Kafka chooses the partition of
``__consumer_offsets`` for a group by the hash of its name, and answers show that partition. A
prefix whose ``String.hashCode`` is 0 does not change the hash of a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from string import ascii_lowercase
from typing import Final

from txnsim.runtime.real_world import new_token

_HASH_MODULUS: Final = 1 << 32
_INVERSE_OF_31: Final = pow(31, -1, _HASH_MODULUS)
_LAST_CHARACTER: Final = "-"


def java_hash(text: str) -> int:
    """``String.hashCode``, as an unsigned number."""
    hash_code = 0
    for letter in text:
        hash_code = (31 * hash_code + ord(letter)) % _HASH_MODULUS
    return hash_code


def prefix_without_hash(beginning: str) -> str:
    """A text that has this beginning, ends in a hyphen, and has the hash 0; a different one each
    time.
    """
    ends_by_hash = {
        java_hash("".join(letters)): "".join(letters) for letters in _letter_combinations(3)
    }
    wanted_hash = -ord(_LAST_CHARACTER) * _INVERSE_OF_31  # in front of the last hyphen
    while True:
        prefix_head = (
            beginning + "".join(letter for letter in new_token().lower() if letter.isalpha())[:3]
        )
        hash_of_head = java_hash(prefix_head) * 31**7
        for letters in _letter_combinations(4):
            middle = "".join(letters)
            prefix_end = ends_by_hash.get(
                (wanted_hash - hash_of_head - java_hash(middle) * 31**3) % _HASH_MODULUS
            )
            if prefix_end is not None:
                return f"{prefix_head}{middle}{prefix_end}{_LAST_CHARACTER}"


def _letter_combinations(count: int) -> Iterator[tuple[str, ...]]:
    return product(ascii_lowercase, repeat=count)
