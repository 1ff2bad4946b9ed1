"""Time and random numbers of the process, replaced during a virtual run.

Client libraries read ``time``, ``datetime``, ``random``, ``os.urandom``, ``uuid`` and ``secrets``
directly. During a run these answer from the run's loop and seed, also through names and default
arguments that a module bound before, but only in the thread of the run: a web
server, a test runner or a loop in another thread keeps real time, and its random draws don't change
the run. Everything is put back afterwards.

Not covered: C extensions that ask the system themselves, unless ``Libraries`` knows them; processor
time (``time.process_time``); a function that an object or a container took before the run; numpy's
old generator (``numpy.random.rand``).
"""

from __future__ import annotations

import ctypes
import datetime
import gc
import os
import random
import sys
import threading
import time
import types
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import get_ident
from typing import Any, Final, NoReturn

import msgspec

from txnsim.errors import NotSimulatedError, SimulationError
from txnsim.runtime.rng import derive

Nanoseconds = Callable[[], int]

_CLOCK_FUNCTIONS: Final = (
    "clock_gettime", "clock_gettime_ns", "ctime", "gmtime", "localtime", "monotonic",
    "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep", "strftime", "time", "time_ns",
)  # fmt: skip
_ENTROPY_FUNCTIONS: Final = ("getrandom", "urandom")
_RANDOM_FUNCTIONS: Final = tuple(
    name
    for name in random.__all__
    if isinstance(getattr(random, name), type(random.shuffle) | type(random.random))
)
"""The functions of the module ``random``: methods of one generator that all threads share."""
_STRFTIME_ARGUMENTS: Final = 2
"""Number of arguments with which ``time.strftime`` is given a time."""
_WALL_CLOCKS: Final = ("CLOCK_REALTIME", "CLOCK_TAI")
_STEADY_CLOCKS: Final = ("CLOCK_MONOTONIC", "CLOCK_MONOTONIC_RAW", "CLOCK_BOOTTIME", "CLOCK_UPTIME")
"""Clocks of ``time.clock_gettime``; each system has some of them."""
_NODE_BITS, _CLOCK_BITS = 48, 14


# Functions of the process that answer differently in one thread.
#
# A library reads the time by ``time.time``, by a name that it bound before (``from time import
# time``), or by a default argument. A ``ThreadPatch`` stands in front of such a function: it
# answers the thread of a virtual run from the run, and every other thread from the function itself.
# ``bindings_in`` finds where modules have bound the function, so that the patch can stand there as
# well.
#
# A patch belongs to the process, not to a run. An object that keeps one after a run (a module
# imported meanwhile, for example) gets the real function's answers then.

NO_THREAD: Final = 0
"""An identifier that no thread has."""

Function = Callable[..., Any]


class RunThread:
    """The thread in which the patches answer from the run; one object for all patches of the
    process.
    """

    __slots__ = ("thread",)

    def __init__(self) -> None:
        self.thread = NO_THREAD


class ThreadPatch:
    """A function of the process, and its virtual replacement in the run's thread."""

    __slots__ = ("_owner", "answer", "function", "virtual")

    def __init__(self, function: Function, run_thread: RunThread) -> None:
        """Patch ``function``; while ``owner`` has no thread, every thread gets the function
        itself.
        """
        self.function = function
        self.virtual: Function = function
        self._owner = run_thread
        self.answer: Final[Function] = self._answer
        """The patched function. A bound method: a class that has it as an attribute does not bind
        it again.
        """

    def _answer(self, *args: Any, **options: Any) -> Any:
        if get_ident() == self._owner.thread:
            return self.virtual(*args, **options)
        return self.function(*args, **options)


class Binding(msgspec.Struct, frozen=True):
    """A place in a module where a function is bound."""

    put: Callable[[Any], object]
    real: Any
    """The object outside of a run."""
    patched: Any
    """The object during a run, with patches in place of its functions."""


Patches = Mapping[int, ThreadPatch]
"""Patches by the identity of the patched function."""


class ModuleWalk:
    """Finds the bindings in all modules; each module is searched once."""

    def __init__(self, patches: Patches) -> None:
        self._patches = patches
        self._known_bindings: dict[str, tuple[types.ModuleType, tuple[Binding, ...]]] = {}

    def bindings(self) -> tuple[Binding, ...]:
        """Every binding in the modules that are loaded now.

        Modules of the standard library are left out: ``threading`` and ``queue`` wait in real time.
        Modules that are being imported are searched again next time, and so is ``__main__``.
        """
        known_modules = self._known_bindings
        bindings_found: list[Binding] = []
        module_by_name: dict[str, object] = dict(sys.modules)  # a program may put anything there
        for module_name, module in module_by_name.items():
            known_module = known_modules.get(module_name)
            if known_module is not None and known_module[0] is module:
                bindings_found += known_module[1]
                continue
            known_modules.pop(module_name, None)
            if not isinstance(module, types.ModuleType):
                continue
            is_standard = module_name.partition(".")[0] in sys.stdlib_module_names
            bindings = () if is_standard else tuple(bindings_in(module, self._patches))
            bindings_found += bindings
            if module_name != "__main__" and not _is_under_way(module):
                known_modules[module_name] = module, bindings
        for module_name in known_modules.keys() - module_by_name.keys():
            del known_modules[module_name]
        return tuple(bindings_found)


def bindings_in(module: types.ModuleType, patches: Patches) -> Iterator[Binding]:
    """Where ``module`` has bound a function that has a patch: names of the module and attributes of
    its classes, default arguments and closures of functions.
    """
    namespace = vars(module)
    seen_ids: set[int] = set()
    for attribute_name, bound_object in list(namespace.items()):
        if (patch := patches.get(id(bound_object))) is not None:
            yield Binding(
                partial(namespace.__setitem__, attribute_name), bound_object, patch.answer
            )
        elif isinstance(bound_object, types.FunctionType):
            if bound_object.__module__ == module.__name__:
                yield from _bindings_of_function(bound_object, patches, seen_ids)
        elif isinstance(bound_object, type) and bound_object.__module__ == module.__name__:
            yield from _bindings_of_class(bound_object, patches, seen_ids)


def _bindings_of_class(
    owner_class: type, patches: Patches, seen_ids: set[int]
) -> Iterator[Binding]:
    if id(owner_class) in seen_ids:
        return
    seen_ids.add(id(owner_class))
    for attribute_name, bound_object in list(vars(owner_class).items()):
        if (patch := patches.get(id(bound_object))) is not None:
            yield Binding(partial(setattr, owner_class, attribute_name), bound_object, patch.answer)
            continue
        unwrapped_object = bound_object
        if isinstance(unwrapped_object, staticmethod | classmethod):
            unwrapped_object = unwrapped_object.__func__
            if (patch := patches.get(id(unwrapped_object))) is not None:
                yield Binding(
                    partial(setattr, owner_class, attribute_name),
                    bound_object,
                    type(bound_object)(patch.answer),
                )
                continue
        if isinstance(unwrapped_object, types.FunctionType):
            yield from _bindings_of_function(unwrapped_object, patches, seen_ids)
        elif (
            isinstance(unwrapped_object, type)
            and unwrapped_object.__qualname__ == f"{owner_class.__qualname__}.{attribute_name}"
        ):
            yield from _bindings_of_class(unwrapped_object, patches, seen_ids)


def _bindings_of_function(
    function: types.FunctionType, patches: Patches, seen_ids: set[int]
) -> Iterator[Binding]:
    if id(function) in seen_ids:
        return
    seen_ids.add(id(function))
    defaults = function.__defaults__
    if defaults is not None and any(id(bound_object) in patches for bound_object in defaults):
        patched_defaults = tuple(_patched_value(bound_object, patches) for bound_object in defaults)
        yield Binding(partial(setattr, function, "__defaults__"), defaults, patched_defaults)
    keyword_defaults = function.__kwdefaults__
    if keyword_defaults is not None and any(
        id(bound_object) in patches for bound_object in keyword_defaults.values()
    ):
        patched_keywords = {
            name: _patched_value(bound_object, patches)
            for name, bound_object in keyword_defaults.items()
        }
        yield Binding(
            partial(setattr, function, "__kwdefaults__"), keyword_defaults, patched_keywords
        )
    for cell in function.__closure__ or ():
        try:
            bound_object = cell.cell_contents
        except ValueError:
            continue  # not assigned yet
        if (patch := patches.get(id(bound_object))) is not None:
            yield Binding(partial(setattr, cell, "cell_contents"), bound_object, patch.answer)
        elif isinstance(bound_object, types.FunctionType):
            yield from _bindings_of_function(bound_object, patches, seen_ids)


def _patched_value(bound_object: object, patches: Patches) -> object:
    patch = patches.get(id(bound_object))
    return bound_object if patch is None else patch.answer


def _is_under_way(module: types.ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


# Answers of a virtual run

_active: Final = threading.Lock()
_owner: Final = RunThread()


class _Source(msgspec.Struct, frozen=True):
    """A name of the standard library that is patched."""

    owner: Any
    name: str
    patch: ThreadPatch


def _sources() -> tuple[_Source, ...]:
    modules = (
        (time, _CLOCK_FUNCTIONS),
        (os, _ENTROPY_FUNCTIONS),
        (random, _RANDOM_FUNCTIONS),
        (uuid, ("uuid1",)),
    )
    sources = [
        _Source(module, function_name, ThreadPatch(getattr(module, function_name), _owner))
        for module, function_names in modules
        for function_name in function_names
        if hasattr(module, function_name)
    ]
    patch_by_function = {id(source.patch.function): source.patch for source in sources}
    # What random.SystemRandom, and with it secrets, draws from.
    sources.append(_Source(random, "_urandom", patch_by_function[id(os.urandom)]))
    return tuple(sources)


_SOURCES: Final = _sources()
_walk: Final = ModuleWalk({id(source.patch.function): source.patch for source in _SOURCES})


@contextmanager
def ambient_virtual(
    *, read_monotonic_ns: Nanoseconds, read_wall_ns: Nanoseconds, seed: int
) -> Iterator[LibraryPatches]:
    """Let time and random numbers of the process follow a virtual run in this thread.

    Yields:
        The object that patches libraries which are imported during the run.

    Raises:
        SimulationError: Another virtual run is under way in this process.
    """
    if not _active.acquire(blocking=False):
        raise SimulationError(
            "another virtual run is under way in this process, and a process has one at a time: "
            "run them one after the other, or each in a process of its own (pytest -n, "
            "multiprocessing)"
        )
    try:
        virtual_functions = _virtual_functions(
            read_monotonic_ns, read_wall_ns, _VirtualRandom(seed)
        )
        with ExitStack() as stack:
            for source in _SOURCES:
                stack.callback(setattr, source.patch, "virtual", source.patch.function)
                source.patch.virtual = virtual_functions[source.name]
                stack.callback(
                    setattr, source.owner, source.name, getattr(source.owner, source.name)
                )
                setattr(source.owner, source.name, source.patch.answer)
            for binding in _walk.bindings():
                stack.callback(binding.put, binding.real)
                binding.put(binding.patched)
            _lend_datetime(stack, read_wall_ns)
            _lend_seeds(stack, virtual_functions["seeds"])
            libraries = LibraryPatches(stack, is_ours=_is_run_thread)
            libraries.lend()
            stack.callback(setattr, _owner, "thread", NO_THREAD)
            _owner.thread = threading.get_ident()
            yield libraries
    finally:
        _active.release()


def _is_run_thread() -> bool:
    return threading.get_ident() == _owner.thread


class _VirtualRandom:
    """Random numbers of a run: a stream for ``random``, one for functions that ask the system for
    entropy, one for generators that are made without a seed. None changes another's draws.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.entropy = random.Random(derive(seed, "entropy"))
        self.seeds = random.Random(derive(seed, "seeds"))


def _virtual_functions(
    read_monotonic_ns: Nanoseconds, read_wall_ns: Nanoseconds, random_source: _VirtualRandom
) -> dict[str, Function]:
    virtual_functions = {name: getattr(random_source.random, name) for name in _RANDOM_FUNCTIONS}
    virtual_functions |= _virtual_clocks(read_monotonic_ns, read_wall_ns)
    real_uuid1 = uuid.uuid1

    def uuid1(node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
        # Given both it asks time.time_ns, and no library of the system.
        return real_uuid1(
            random_source.entropy.getrandbits(_NODE_BITS) if node is None else node,
            random_source.entropy.getrandbits(_CLOCK_BITS) if clock_seq is None else clock_seq,
        )

    return virtual_functions | {
        "urandom": random_source.entropy.randbytes,
        "_urandom": random_source.entropy.randbytes,
        "getrandom": lambda size, flags=0: random_source.entropy.randbytes(size),  # noqa: ARG005 - os.getrandom's arguments
        "uuid1": uuid1,
        "seeds": lambda: random_source.seeds.getrandbits(128),
    }


def _virtual_clocks(
    read_monotonic_ns: Nanoseconds, read_wall_ns: Nanoseconds
) -> dict[str, Function]:
    real_functions = {
        function_name: getattr(time, function_name)
        for function_name in _CLOCK_FUNCTIONS
        if hasattr(time, function_name)
    }
    wall_clock_ids = {
        getattr(time, function_name)
        for function_name in _WALL_CLOCKS
        if hasattr(time, function_name)
    }
    steady_clock_ids = {
        getattr(time, function_name)
        for function_name in _STEADY_CLOCKS
        if hasattr(time, function_name)
    }

    def clock_gettime_ns(clock: int) -> int:
        if clock in wall_clock_ids:
            return read_wall_ns()
        time_ns: int = (
            read_monotonic_ns()
            if clock in steady_clock_ids
            else real_functions["clock_gettime_ns"](clock)
        )
        return time_ns

    def broken_down(name: str) -> Function:
        return lambda seconds=None: real_functions[name](
            read_wall_ns() / 1e9 if seconds is None else seconds
        )

    def strftime(*arguments: Any) -> str:
        has_time = len(arguments) == _STRFTIME_ARGUMENTS
        formatted_time: str = real_functions["strftime"](
            *arguments, *(() if has_time else (real_functions["localtime"](read_wall_ns() / 1e9),))
        )
        return formatted_time

    return {
        "monotonic": lambda: read_monotonic_ns() / 1e9,
        "monotonic_ns": read_monotonic_ns,
        "perf_counter": lambda: read_monotonic_ns() / 1e9,
        "perf_counter_ns": read_monotonic_ns,
        "time": lambda: read_wall_ns() / 1e9,
        "time_ns": read_wall_ns,
        "clock_gettime": lambda clock: clock_gettime_ns(clock) / 1e9,
        "clock_gettime_ns": clock_gettime_ns,
        "ctime": broken_down("ctime"),
        "gmtime": broken_down("gmtime"),
        "localtime": broken_down("localtime"),
        "strftime": strftime,
        "sleep": _no_sleep,
    }


def _no_sleep(_seconds: float) -> NoReturn:
    raise NotSimulatedError("time.sleep would stop a virtual run; await asyncio.sleep")


def _lend_datetime(stack: ExitStack, read_wall_ns: Nanoseconds) -> None:
    """Patch ``now`` and ``utcnow``; ``today`` asks ``time.time`` itself."""
    real_now = native_attribute(datetime.datetime, "now")
    real_utcnow = native_attribute(datetime.datetime, "utcnow")

    def now(cls: type[datetime.datetime], tz: datetime.tzinfo | None = None) -> datetime.datetime:
        if not _is_run_thread():
            real_time: datetime.datetime = real_now.__get__(None, cls)(tz)
            return real_time
        now_us = read_wall_ns() // 1_000
        return cls.fromtimestamp(now_us // 1_000_000, tz).replace(microsecond=now_us % 1_000_000)

    def utcnow(cls: type[datetime.datetime]) -> datetime.datetime:
        if not _is_run_thread():
            real_time: datetime.datetime = real_utcnow.__get__(None, cls)()
            return real_time
        return now(cls, datetime.UTC).replace(tzinfo=None)

    for method_name, real_method, virtual_method in (
        ("now", real_now, now),
        ("utcnow", real_utcnow, utcnow),
    ):
        if put_native_attribute(datetime.datetime, method_name, classmethod(virtual_method)):
            stack.callback(put_native_attribute, datetime.datetime, method_name, real_method)


def _lend_seeds(stack: ExitStack, draw_seed: Function) -> None:
    """Let ``random.Random()`` without a seed take a seed of the run."""
    real_seed = random.Random.seed

    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        if a is None and _is_run_thread():
            a = draw_seed()
        real_seed(self, a, version)

    stack.callback(setattr, random.Random, "seed", real_seed)
    random.Random.seed = seed  # type: ignore[method-assign]  # put back by the stack
    # uuid1 never goes back behind the last one of the process, which real time has made.
    stack.callback(setattr, uuid, "_last_timestamp", getattr(uuid, "_last_timestamp", None))
    vars(uuid)["_last_timestamp"] = None


_BUILDER_CLASSES: Final = (
    ("aiokafka.record._crecords.default_records", "DefaultRecordBatchBuilder"),
    ("aiokafka.record._crecords.legacy_records", "LegacyRecordBatchBuilder"),
)
_PRODUCER_CLASS: Final = ("aiokafka.producer.producer", "AIOKafkaProducer")
_NUMBER_ATTRIBUTE: Final = "_PRODUCER_CLIENT_ID_SEQUENCE"
_BROKER_CLASS: Final = ("aiokafka.structs", "BrokerMetadata")


class LibraryPatches:
    """The patches of client libraries in one run, so that they follow its time.

    aiokafka stamps records in a C extension that asks the system for the time. It numbers its
    producers per process, which would show in the names of the second run's clients. It asks
    brokers in the order of a set of tuples with ``None`` in them, whose hash is an address before
    Python 3.12. Nothing is imported here: a library that is not loaded is left alone.
    """

    def __init__(self, stack: ExitStack, *, is_ours: Callable[[], bool]) -> None:
        self._stack = stack
        self._is_run_thread = is_ours
        self._lent: set[type] = set()

    def lend(self) -> None:
        """Patch the libraries that are loaded by now. Called again when more may be: before a
        client connects.
        """
        for module_name, class_name in _BUILDER_CLASSES:
            self._lend_once(module_name, class_name, self._stamp_records)
        self._lend_once(*_PRODUCER_CLASS, self._restart_numbers)
        self._lend_once(*_BROKER_CLASS, self._hash_by_content)

    def _lend_once(
        self, module_name: str, class_name: str, patch_class: Callable[[Any], None]
    ) -> None:
        library_class = getattr(sys.modules.get(module_name), class_name, None)
        if isinstance(library_class, type) and library_class not in self._lent:
            self._lent.add(library_class)
            patch_class(library_class)

    def _stamp_records(self, builder_class: Any) -> None:
        """Let a record without a timestamp get the run's time."""
        real_append, is_ours = native_attribute(builder_class, "append"), self._is_run_thread

        def append(
            self: Any,
            offset: int,
            timestamp: int | None,
            *further_arguments: Any,
            **keyword_arguments: Any,
        ) -> Any:
            if timestamp is None and is_ours():
                timestamp = int(time.time() * 1_000)
            return real_append(self, offset, timestamp, *further_arguments, **keyword_arguments)

        if real_append is not None and put_native_attribute(builder_class, "append", append):
            self._stack.callback(put_native_attribute, builder_class, "append", real_append)

    def _restart_numbers(self, producer_class: Any) -> None:
        """Let the numbers of producers start anew in the run."""
        if hasattr(producer_class, _NUMBER_ATTRIBUTE):
            self._stack.callback(
                setattr,
                producer_class,
                _NUMBER_ATTRIBUTE,
                getattr(producer_class, _NUMBER_ATTRIBUTE),
            )
            setattr(producer_class, _NUMBER_ATTRIBUTE, 0)

    def _hash_by_content(self, broker_class: Any) -> None:
        """Hash a client library's broker by its content, in the run's thread."""
        if "__hash__" in vars(broker_class):
            return
        is_ours = self._is_run_thread

        def by_content(self: tuple[Any, ...]) -> int:
            return zlib.crc32(repr(tuple(self)).encode()) if is_ours() else tuple.__hash__(self)

        broker_class.__hash__ = by_content
        self._stack.callback(delattr, broker_class, "__hash__")


_PYTHON_API: Final = getattr(ctypes, "pythonapi", None)


def native_attribute(owner_class: type, name: str) -> Any:
    """Unbound value in the namespace of ``owner_class``; None if the name is missing."""
    return vars(owner_class).get(name)


def put_native_attribute(owner_class: type, name: str, replacement: object) -> bool:
    """Replace an attribute of a compiled class.

    ``datetime.datetime`` and the classes of C extensions refuse ``setattr``, and a class in their
    place would fail ``type(x) is datetime`` and miss every name that was bound before. So the value
    is put into the namespace of the class itself. CPython shows that namespace to the garbage
    collector; other implementations may not, and then nothing is replaced.

    Returns:
        Whether the attribute was replaced.
    """
    namespaces = [
        members
        for members in gc.get_referents(vars(owner_class))
        if isinstance(members, dict) and name in members
    ]
    if _PYTHON_API is None or len(namespaces) != 1:
        return False
    namespaces[0][name] = replacement
    # Lookups of attributes are cached per class.
    _PYTHON_API.PyType_Modified(ctypes.py_object(owner_class))
    return True
