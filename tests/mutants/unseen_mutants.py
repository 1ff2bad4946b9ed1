"""Mutations that no client can see, each with its reason: ``unseen_mutants.tsv``."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

FILE: Final = Path(__file__).with_name("unseen_mutants.tsv")


@cache
def unseen_mutants() -> MappingProxyType[str, str]:
    """The reason of each mutation that changes nothing that can be seen, by the mutation's id."""
    rows = [
        line.split("\t", maxsplit=1)
        for line in FILE.read_text("utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    return MappingProxyType(dict(rows))
