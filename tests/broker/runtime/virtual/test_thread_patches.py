"""Patches in front of functions, and the bindings where modules have bound them."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable
from threading import get_ident

import pytest

from txnsim.runtime.virtual._thread_patches import (
    Binding,
    ModuleWalk,
    Owner,
    ThreadPatch,
    bindings_in,
)

OWN_NAME = "a_module_of_this_test"

SOURCE = """
bound = clock
other = len


def by_default(at=clock, more=1):
    return at()


def by_keyword(*, at=clock, more=2):
    return at()


def closed_over(at):
    def inner():
        return at()

    return inner


closed = closed_over(clock)
wrapped = closed_over(closed_over(clock))


def never_assigned():
    def inner():
        return later

    if False:
        later = 1
    return inner


empty = never_assigned()


class Holder:
    attribute = clock
    still = staticmethod(clock)
    size = 3

    def method(self, at=clock):
        return at()

    @staticmethod
    def static(at=clock):
        return at()

    class Inner:
        attribute = clock

    Itself = None


Holder.Itself = Holder
"""


class Clock:
    def read(self) -> str:
        return "real"


clock = Clock().read
"""As a function of C, it does not become a method of the class that keeps it."""


def module_of(source: str, name: str = OWN_NAME) -> types.ModuleType:
    module = types.ModuleType(name)
    vars(module)["clock"] = clock
    exec(compile(source, name, "exec"), vars(module))
    del vars(module)["clock"]
    return module


def patch_of(owner: Owner) -> ThreadPatch:
    patch = ThreadPatch(clock, owner)
    patch.virtual = lambda: "virtual"
    return patch


def answers(module: types.ModuleType) -> dict[str, str]:
    """What each binding of ``SOURCE`` answers."""
    holder = module.Holder()
    return {
        "bound": module.bound(),
        "default": module.by_default(),
        "keyword": module.by_keyword(),
        "closure": module.closed(),
        "closure of a closure": module.wrapped(),
        "attribute": holder.attribute(),
        "static attribute": holder.still(),
        "method": holder.method(),
        "static": holder.static(),
        "inner": module.Holder.Inner.attribute(),
    }


def test_only_the_owner_is_answered_from_the_run() -> None:
    owner = Owner()
    patch = patch_of(owner)
    assert patch.answer() == "real"
    owner.thread = get_ident()
    assert patch.answer() == "virtual"
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.append(patch.answer()))
    thread.start()
    thread.join()
    assert seen == ["real"]


def test_a_door_does_not_become_a_method_of_the_class_that_keeps_it() -> None:
    class Holder:
        now: Callable[..., str] = patch_of(Owner()).answer

    assert Holder().now() == "real"


def test_each_place_of_a_module_is_found_and_put_back() -> None:
    owner = Owner()
    patch = patch_of(owner)
    owner.thread = get_ident()
    module = module_of(SOURCE)
    bindings = list(bindings_in(module, {id(clock): patch}))
    for binding in bindings:
        binding.put(binding.patched)
    assert answers(module) == dict.fromkeys(answers(module), "virtual")
    assert module.other is len
    assert module.by_default.__defaults__[1:] == (1,)
    assert module.by_keyword.__kwdefaults__["more"] == 2
    for binding in bindings:
        binding.put(binding.real)
    assert answers(module) == dict.fromkeys(answers(module), "real")
    assert module.bound is clock


def test_what_another_module_has_made_is_not_looked_into() -> None:
    module = module_of("def own(at=clock):\n    return at()")
    module.own.__module__ = "elsewhere"
    assert list(bindings_in(module, {id(clock): patch_of(Owner())})) == []


def names(bindings: tuple[Binding, ...]) -> list[object]:
    return [binding.real for binding in bindings]


def test_a_walk_finds_new_modules_and_leaves_out_the_standard_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walk = ModuleWalk({id(clock): patch_of(Owner())})
    before = walk.bindings()
    monkeypatch.setitem(sys.modules, OWN_NAME, module_of("bound = clock"))
    monkeypatch.setitem(sys.modules, "queue.of_this_test", module_of("bound = clock"))
    monkeypatch.setitem(sys.modules, "not_a_module", object())  # type: ignore[arg-type]
    assert names(walk.bindings()) == [*names(before), clock]
    assert walk.bindings() == walk.bindings()


def test_what_is_being_imported_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    walk = ModuleWalk({id(clock): patch_of(Owner())})
    module = module_of("")
    module.__spec__ = types.SimpleNamespace(_initializing=True)  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, OWN_NAME, module)
    before = len(walk.bindings())
    vars(module)["bound"] = clock
    assert len(walk.bindings()) == before + 1
    module.__spec__ = None
    assert len(walk.bindings()) == len(walk.bindings()) == before + 1
