from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from txnsim.wire._codegen import Source, twin_of
from txnsim.wire.codec import request_class


def test_source_becomes_a_function_with_bound_names() -> None:
    source = Source()
    source.enter("def double(x):")
    source.enter("if x is None:")
    source.line(f"return {source.bind('nothing', 'value')}")
    source.leave()
    source.line("return 2 * x")
    double = source.function("double", origin="a test")
    assert double(21) == 42
    assert double(None) == "nothing"


def test_equal_hints_give_different_names() -> None:
    source = Source()
    assert source.bind(1, "value") != source.bind(2, "value")


def test_leaving_several_blocks_at_once() -> None:
    source = Source()
    source.enter("def first(items):")
    source.enter("for item in items:")
    source.enter("if item:")
    source.line("return item")
    source.leave(2)
    source.line("return None")
    assert source.function("first", origin="a test")([0, 3]) == 3


@pytest.mark.parametrize(("key", "version"), [(26, 5), (18, 0)])
def test_filled_twin_becomes_the_frozen_message(key: int, version: int) -> None:
    cls = request_class(key, version)
    twin = twin_of(cls)()
    for name in cls.__slots__:
        setattr(twin, name, 1)
    twin.__class__ = cls
    assert twin == cls(**dict.fromkeys(cls.__slots__, 1))
    assert hash(twin) == hash(cls(**dict.fromkeys(cls.__slots__, 1)))


def test_filled_twin_can_not_be_changed_any_more() -> None:
    cls = request_class(26, 5)
    twin = twin_of(cls)()
    twin.committed = True
    twin.__class__ = cls
    with pytest.raises(FrozenInstanceError):
        twin.committed = False


def test_each_class_has_one_twin() -> None:
    assert twin_of(request_class(26, 5)) is twin_of(request_class(26, 5))
    assert twin_of(request_class(26, 5)) is not twin_of(request_class(26, 4))
