"""Functions of the process that answer one thread differently.

A library reads the time by ``time.time``, by a name that it bound before (``from time import
time``), or by a default argument. A ``ThreadPatch`` stands in front of such a function: it answers
the thread of a virtual run from the run, and every other thread from the function itself.
``bindings_in`` finds where modules have bound the function, so that the patch can stand there as
well.

A patch belongs to the process, not to a run. What takes one during a run and keeps it (a module
imported then, an object) gets the real function's answers again once the run is over.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from threading import get_ident
from typing import Any, Final

import msgspec

NO_THREAD: Final = 0
"""No thread has this identifier."""

Function = Callable[..., Any]


class Owner:
    """Which thread the patches answer from the run; one object for all patches of the process."""

    __slots__ = ("thread",)

    def __init__(self) -> None:
        self.thread = NO_THREAD


class ThreadPatch:
    """A function of the process, and its virtual replacement in the run's thread."""

    __slots__ = ("_owner", "answer", "function", "virtual")

    def __init__(self, function: Function, owner: Owner) -> None:
        """Stand in front of ``function``; without an owner everybody passes."""
        self.function = function
        self.virtual: Function = function
        self._owner = owner
        self.answer: Final[Function] = self._answer
        """A bound method: a class that keeps it as an attribute does not bind it again."""

    def _answer(self, *args: Any, **options: Any) -> Any:
        if get_ident() == self._owner.thread:
            return self.virtual(*args, **options)
        return self.function(*args, **options)


class Binding(msgspec.Struct, frozen=True):
    """Somewhere in a module where a function is bound."""

    put: Callable[[Any], object]
    real: Any
    """The object outside of a run."""
    patched: Any
    """The object with patches in place of its functions."""


Patches = Mapping[int, ThreadPatch]
"""By the identity of the function."""


class ModuleWalk:
    """Finds the bindings of all modules; each is looked into once."""

    def __init__(self, patches: Patches) -> None:
        self._patches = patches
        self._known: dict[str, tuple[types.ModuleType, tuple[Binding, ...]]] = {}

    def bindings(self) -> tuple[Binding, ...]:
        """Every binding in the modules of today.

        Modules of the standard library are left out: ``threading`` and ``queue`` wait by real time.
        What is being imported right now is looked at again next time, and so is ``__main__``.
        """
        known, self._known = self._known, {}
        found: list[Binding] = []
        modules: dict[str, object] = dict(sys.modules)  # a program may put anything there
        for name, module in modules.items():
            if not isinstance(module, types.ModuleType):
                continue
            before = known.get(name)
            if before is not None and before[0] is module:
                bindings = before[1]
            elif name.partition(".")[0] in sys.stdlib_module_names:
                bindings = ()
            else:
                bindings = tuple(bindings_in(module, self._patches))
            found += bindings
            if name != "__main__" and not _is_under_way(module):
                self._known[name] = module, bindings
        return tuple(found)


def bindings_in(module: types.ModuleType, patches: Patches) -> Iterator[Binding]:
    """Where ``module`` has bound a function that has a patch: names of the module and attributes of
    its classes, default arguments and closures of functions.
    """
    namespace = vars(module)
    seen: set[int] = set()
    for name, value in list(namespace.items()):
        if (patch := patches.get(id(value))) is not None:
            yield Binding(partial(namespace.__setitem__, name), value, patch.answer)
        elif isinstance(value, types.FunctionType):
            if value.__module__ == module.__name__:
                yield from _bindings_of_function(value, patches, seen)
        elif isinstance(value, type) and value.__module__ == module.__name__:
            yield from _bindings_of_class(value, patches, seen)


def _bindings_of_class(owner: type, patches: Patches, seen: set[int]) -> Iterator[Binding]:
    if id(owner) in seen:
        return
    seen.add(id(owner))
    for name, value in list(vars(owner).items()):
        if (patch := patches.get(id(value))) is not None:
            yield Binding(partial(setattr, owner, name), value, patch.answer)
            continue
        inner = value
        if isinstance(inner, staticmethod | classmethod):
            inner = inner.__func__
            if (patch := patches.get(id(inner))) is not None:
                yield Binding(partial(setattr, owner, name), value, type(value)(patch.answer))
                continue
        if isinstance(inner, types.FunctionType):
            yield from _bindings_of_function(inner, patches, seen)
        elif isinstance(inner, type) and inner.__qualname__ == f"{owner.__qualname__}.{name}":
            yield from _bindings_of_class(inner, patches, seen)


def _bindings_of_function(
    function: types.FunctionType, patches: Patches, seen: set[int]
) -> Iterator[Binding]:
    if id(function) in seen:
        return
    seen.add(id(function))
    defaults = function.__defaults__
    if defaults is not None and any(id(value) in patches for value in defaults):
        patched = tuple(_patched(value, patches) for value in defaults)
        yield Binding(partial(setattr, function, "__defaults__"), defaults, patched)
    keywords = function.__kwdefaults__
    if keywords is not None and any(id(value) in patches for value in keywords.values()):
        by_name = {name: _patched(value, patches) for name, value in keywords.items()}
        yield Binding(partial(setattr, function, "__kwdefaults__"), keywords, by_name)
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            continue  # not assigned yet
        if (patch := patches.get(id(value))) is not None:
            yield Binding(partial(setattr, cell, "cell_contents"), value, patch.answer)
        elif isinstance(value, types.FunctionType):
            yield from _bindings_of_function(value, patches, seen)


def _patched(value: object, patches: Patches) -> object:
    patch = patches.get(id(value))
    return value if patch is None else patch.answer


def _is_under_way(module: types.ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))
