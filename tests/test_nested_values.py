"""Who reads JSON of others is ready for values that are nested more deeply than a decoder goes.

Decoders tell them by ``RecursionError``, which is none of their own errors: where it is forgotten,
a file of a thousand brackets ends a command in a traceback.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

SIM = Path(__file__).resolve().parents[1] / "sim"
ERRORS = frozenset({"msgspec.DecodeError", "msgspec.MsgspecError"})
JSON_CALLS = frozenset({"json.loads", "json.load"})


def forgetful_handlers(source: str) -> Iterator[int]:
    """Lines of statements that catch errors of msgspec or ``json``, and no ``RecursionError``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Try):
            caught = {
                ast.unparse(error)
                for handler in node.handlers
                if handler.type is not None
                for error in (
                    handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
                )
            }
            calls = {
                ast.unparse(call.func)
                for statement in node.body
                for call in ast.walk(statement)
                if isinstance(call, ast.Call)
            }
            errors = {*ERRORS, "ValueError"} if calls & JSON_CALLS else ERRORS
            if caught & errors and "RecursionError" not in caught:
                yield node.lineno


def test_nobody_forgets_them() -> None:
    forgotten = [
        f"{path.relative_to(SIM)}:{line}"
        for path in sorted(SIM.rglob("*.py"))
        for line in forgetful_handlers(path.read_text())
    ]
    assert not forgotten, "catch RecursionError as well"


@pytest.mark.parametrize(
    ("statement", "count"),
    [
        ("try: ...\nexcept msgspec.DecodeError: ...", 1),
        ("try: ...\nexcept (OSError, msgspec.MsgspecError): ...", 1),
        ("try: ...\nexcept (msgspec.DecodeError, RecursionError): ...", 0),
        ("try: ...\nexcept RecursionError: ...\nexcept msgspec.DecodeError: ...", 0),
        ("try: json.loads(t)\nexcept ValueError: ...", 1),
        ("try: json.loads(t)\nexcept (ValueError, RecursionError): ...", 0),
        ("try: int(t)\nexcept ValueError: ...", 0),
    ],
)
def test_each_form_is_seen(statement: str, count: int) -> None:
    assert len(list(forgetful_handlers(statement))) == count


@pytest.mark.parametrize("decode", [msgspec.json.decode, json.loads])
def test_decoders_tell_them_by_another_error(decode: Callable[[bytes], object]) -> None:
    with pytest.raises(RecursionError):
        decode(b"[" * 100_000)
    assert not issubclass(RecursionError, (msgspec.MsgspecError, ValueError))
