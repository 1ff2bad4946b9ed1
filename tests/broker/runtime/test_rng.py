"""Named streams of chance."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from txnsim.runtime.rng import SeededRng, derive, random_seed


def test_a_name_gives_the_same_stream_object_every_time() -> None:
    rng = SeededRng(7)
    assert rng.stream("link.b1-b2") is rng.stream("link.b1-b2")


@given(seed=st.integers(), name=st.text(max_size=40))
def test_seed_and_name_determine_the_draws(seed: int, name: str) -> None:
    draws = [SeededRng(seed).stream(name).random() for _ in range(2)]
    assert draws[0] == draws[1]


def test_a_new_stream_does_not_shift_another() -> None:
    alone, disturbed = SeededRng(7), SeededRng(7)
    disturbed.stream("b").random()
    first = [alone.stream("a").random() for _ in range(3)]
    second = []
    for _ in range(3):
        second.append(disturbed.stream("a").random())
        disturbed.stream("c").random()
    assert first == second


def test_streams_differ_by_name_and_by_seed() -> None:
    derived = {derive(seed, name) for seed in (1, 2, -1) for name in ("a", "b", "")}
    assert len(derived) == 9


def test_long_seeds_differ_in_any_digit() -> None:
    assert derive(10**80 + 1, "a") != derive(10**80 + 2, "a")


def test_derivation_does_not_depend_on_the_hash_seed() -> None:
    code = "from txnsim.runtime.rng import derive; print(derive(7, 'link.b1-b2'))"
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1")
    }
    assert printed == {f"{derive(7, 'link.b1-b2')}\n"}


def test_random_seeds_are_fit_for_a_command_line() -> None:
    seed = random_seed()
    assert 0 <= seed < 2**48
