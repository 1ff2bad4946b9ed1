"""Random numbers: one seed, many named streams.

Each user of random numbers draws from a stream of its own, derived from the seed of the run and the
stream's name. A new draw in one part therefore never changes another part's draws, and two runs
with one seed can be compared. Derivation is by BLAKE2, never by ``hash()``, which differs from
process to process (PYTHONHASHSEED).
"""

from __future__ import annotations

import hashlib
import random
import secrets


def derive(seed: int, stream_name: str) -> int:
    """Seed of a stream: 128 bits that depend only on ``seed`` and the stream's name."""
    digest = hashlib.blake2b(f"{seed}/{stream_name}".encode(), digest_size=16)
    return int.from_bytes(digest.digest(), "big")


def random_seed() -> int:
    """A seed for a run without one; print it, so that the run can be repeated."""
    return secrets.randbits(48)


def random_hex() -> str:
    """A random hexadecimal text for values that no run has to repeat, such as nonces of a
    client.
    """
    return secrets.token_hex(16)


class RandomStreams:
    """The random streams of one run, each by its name."""

    __slots__ = ("_streams", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[str, random.Random] = {}

    def stream(self, stream_name: str) -> random.Random:
        """The stream of that name, derived from seed and name; the same object at every call."""
        stream = self._streams.get(stream_name)
        if stream is None:
            stream = self._streams[stream_name] = random.Random(derive(self.seed, stream_name))
        return stream
