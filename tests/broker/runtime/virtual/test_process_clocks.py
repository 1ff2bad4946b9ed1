"""Ambient clocks and chance lent to a virtual run."""

from __future__ import annotations

import datetime
import os
import random
import secrets
import sys
import threading
import time
import types
import uuid
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime as BoundBefore  # noqa: N812 - as a name that was bound before
from os import urandom
from random import choice
from threading import get_ident
from time import monotonic
from time import time as now
from typing import Any

import aiokafka
import pytest
from aiokafka.producer.producer import AIOKafkaProducer
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.structs import BrokerMetadata

from txnsim.errors import NotSimulatedError, SimulationError
from txnsim.runtime.virtual._process_clocks import (
    Binding,
    LibraryPatches,
    ModuleWalk,
    RunThread,
    ThreadPatch,
    ambient_virtual,
    bindings_in,
    native_attribute,
    put_native_attribute,
)

NAMES = (
    "clock_gettime", "clock_gettime_ns", "ctime", "gmtime", "localtime", "monotonic",
    "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep", "strftime", "time", "time_ns",
)  # fmt: skip
WALL = datetime.datetime(1970, 1, 1, 0, 0, 9, 500_000, tzinfo=datetime.UTC)


def lent(seed: int = 1) -> AbstractContextManager[LibraryPatches]:
    return ambient_virtual(
        read_monotonic_ns=lambda: 5_000_000_000, read_wall_ns=lambda: 9_500_000_000, seed=seed
    )


def test_clocks_answer_from_the_run_and_are_put_back() -> None:
    originals = [getattr(time, field_name) for field_name in NAMES]
    with lent():
        assert (time.monotonic(), time.perf_counter()) == (5.0, 5.0)
        assert (time.monotonic_ns(), time.perf_counter_ns()) == (5_000_000_000, 5_000_000_000)
        assert (time.time(), time.time_ns()) == (9.5, 9_500_000_000)
    assert [getattr(time, field_name) for field_name in NAMES] == originals


def by_default(clock: Callable[[], float] = time.time) -> float:
    """The time by a default argument: aiokafka binds its clock in this way."""
    return clock()


def draw_all() -> list[object]:
    """A value of each source of chance that a library may ask."""
    return [
        random.random(), random.randint(1, 10**9), choice(range(10**9)), random.Random().random(),
        random.SystemRandom().random(), os.urandom(8), urandom(8), uuid.uuid1(), uuid.uuid4(),
        secrets.token_hex(), secrets.randbits(64), secrets.choice(range(10**9)),
        *([os.getrandom(8)] if hasattr(os, "getrandom") else []),
    ]  # fmt: skip


def test_names_and_default_arguments_that_were_bound_before_follow_the_run() -> None:
    with lent():
        assert (now(), monotonic(), by_default()) == (9.5, 5.0, 9.5)
    assert now is time.time
    assert monotonic is time.monotonic
    assert by_default.__defaults__ == (time.time,)


def test_what_was_bound_during_a_run_is_real_afterwards() -> None:
    with lent():
        bound_time = time.time
        assert bound_time() == 9.5
    assert bound_time() > 1e9


def test_dates_follow_the_run() -> None:
    real_now = datetime.datetime.now
    with lent():
        assert BoundBefore.now(datetime.UTC) == WALL
        assert datetime.datetime.now().timestamp() == 9.5  # noqa: DTZ005 - as libraries do
        assert vars(datetime.datetime)["utcnow"].__get__(None, BoundBefore)() == WALL.replace(
            tzinfo=None
        )
        assert datetime.date.today() == BoundBefore.fromtimestamp(9.5).date()  # noqa: DTZ006, DTZ011 - as libraries do
        assert type(BoundBefore.now(datetime.UTC)) is datetime.datetime
    assert datetime.datetime.now == real_now
    assert BoundBefore.now(datetime.UTC) > WALL.replace(year=2020)


def test_broken_down_time_follows_the_run_unless_one_is_given() -> None:
    with lent():
        assert time.gmtime().tm_sec == time.localtime().tm_sec == 9
        assert time.ctime() == time.ctime(9.5)
        assert time.strftime("%S") == "09"
        assert time.gmtime(3).tm_sec == 3
        assert time.strftime("%S", time.gmtime(4)) == "04"
        assert time.clock_gettime_ns(time.CLOCK_REALTIME) == 9_500_000_000
        assert time.clock_gettime(time.CLOCK_MONOTONIC) == 5.0
        assert time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID) > 0
    assert time.gmtime().tm_year > 2020


def test_every_source_of_chance_follows_the_seed() -> None:
    uuid.uuid1()  # of today: a virtual one must not go on from it
    runs = []
    for seed in (1, 1, 2):
        with lent(seed):
            runs.append(draw_all())
    assert runs[0] == runs[1]
    assert all(value != other_value for value, other_value in zip(runs[0], runs[2], strict=True))
    assert all(value != other_value for value, other_value in zip(runs[0], draw_all(), strict=True))


def test_entropy_does_not_shift_what_random_draws() -> None:
    draws = []
    for also in (True, False):
        with lent():
            if also:
                os.urandom(100)
                random.Random()
            draws.append(random.random())
    assert draws[0] == draws[1]


def test_what_other_threads_draw_does_not_change_the_run() -> None:
    def elsewhere() -> None:
        random.seed(7)
        draws_of_thread.append(draw_all())

    draws_of_thread: list[list[object]] = []
    draws = []
    for is_disturbed in (True, False):
        with lent():
            if is_disturbed:
                thread = threading.Thread(target=elsewhere)
                thread.start()
                thread.join()
            draws.append(draw_all())
    assert draws[0] == draws[1]
    # Seeded by the thread itself; the rest is of the system.
    assert draws_of_thread[0][0] == random.Random(7).random()
    assert draws_of_thread[0][5] != draws[0][5]


def test_a_seed_that_is_given_is_kept() -> None:
    with lent():
        seeded = random.Random(5).random()
    assert seeded == random.Random(5).random()


def test_modules_that_are_imported_between_runs_follow_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with lent():
        pass
    module = types.ModuleType("imported_between_two_runs")
    exec("from time import time as clock", vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with lent():
        assert module.clock() == 9.5
    assert module.clock is time.time


def test_clocks_and_chance_are_put_back_after_a_failure() -> None:
    original_function, state = time.time, random.getstate()

    def fail() -> None:
        with lent():
            random.random()
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert time.time is original_function
    assert random.getstate() == state


def test_chance_follows_the_seed() -> None:
    draws = []
    for seed in (1, 1, 2):
        with lent(seed):
            draws.append(random.random())
    assert draws[0] == draws[1] != draws[2]


@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
def test_other_threads_keep_real_time() -> None:
    thread_times: list[float] = []
    dates: list[datetime.datetime] = []

    def look() -> None:
        thread_times.append(time.monotonic())
        dates.append(BoundBefore.now(datetime.UTC))
        dates.append(vars(BoundBefore)["utcnow"].__get__(None, BoundBefore)())
        time.sleep(0)

    real_before = time.monotonic()
    with lent():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert thread_times[0] >= real_before
    assert thread_times[0] != 5.0
    assert {date.year > 2020 for date in dates} == {True}


def test_sleeping_for_real_is_refused() -> None:
    with lent(), pytest.raises(NotSimulatedError, match="await"):
        time.sleep(0)


def test_two_runs_at_once_are_refused() -> None:
    with lent(), pytest.raises(SimulationError, match="a process of its own"), lent():
        pytest.fail("entered")
    with lent():
        assert time.monotonic() == 5.0


BUILDERS = {
    "DefaultRecordBatchBuilder": lambda: DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=0,
        batch_size=10_000,
    ),
    "LegacyRecordBatchBuilder": lambda: LegacyRecordBatchBuilder(
        magic=1, compression_type=0, batch_size=10_000
    ),
}


def stamp(builder: Any, timestamp: int | None = None) -> int:
    """The timestamp of a record that is appended now."""
    builder_fields = {"headers": []} if isinstance(builder, DefaultRecordBatchBuilder) else {}
    added_record = builder.append(0, timestamp, b"key", b"value", **builder_fields)
    read_timestamp: int = added_record.timestamp
    return read_timestamp


def libraries_in(stack: ExitStack, *, is_ours: bool = True) -> LibraryPatches:
    libraries = LibraryPatches(stack, is_ours=lambda: is_ours)
    libraries.lend()
    return libraries


@pytest.mark.parametrize("builder_name", BUILDERS)
def test_a_record_without_a_stamp_gets_the_time_of_the_run(
    builder_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        libraries_in(stack)
        monkeypatch.setattr(time, "time", lambda: 7.5)
        assert stamp(BUILDERS[builder_name]()) == 7_500
        assert stamp(BUILDERS[builder_name](), 3) == 3
    monkeypatch.undo()
    assert stamp(BUILDERS[builder_name]()) > 1e12


@pytest.mark.parametrize("builder_name", BUILDERS)
def test_another_thread_stamps_by_real_time(builder_name: str) -> None:
    with ExitStack() as stack:
        libraries_in(stack, is_ours=False)
        assert stamp(BUILDERS[builder_name]()) > 1e12


def test_a_run_counts_its_producers_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AIOKafkaProducer, "_PRODUCER_CLIENT_ID_SEQUENCE", 41)
    with ExitStack() as stack:
        libraries = libraries_in(stack)
        AIOKafkaProducer._PRODUCER_CLIENT_ID_SEQUENCE += 2
        libraries.lend()  # lent already: the count goes on
        assert AIOKafkaProducer._PRODUCER_CLIENT_ID_SEQUENCE == 2
    assert AIOKafkaProducer._PRODUCER_CLIENT_ID_SEQUENCE == 41


def test_brokers_hash_by_what_they_say() -> None:
    broker = BrokerMetadata(1, "localhost", 9092, None)
    real_hash = hash(broker)
    with ExitStack() as stack:
        libraries_in(stack)
        assert hash(broker) == zlib.crc32(b"(1, 'localhost', 9092, None)")
    assert hash(broker) == real_hash
    with ExitStack() as stack:
        libraries_in(stack, is_ours=False)
        assert hash(broker) == real_hash


def test_what_says_itself_how_it_hashes_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broker:
        def __hash__(self) -> int:
            return 5

    monkeypatch.setattr(aiokafka.structs, "BrokerMetadata", Broker)
    with ExitStack() as stack:
        libraries_in(stack)
        assert hash(Broker()) == 5


def test_what_is_not_loaded_or_has_another_form_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module_stub = types.SimpleNamespace(
        AIOKafkaProducer=type("AIOKafkaProducer", (), {}),
        DefaultRecordBatchBuilder=type("DefaultRecordBatchBuilder", (), {}),
    )
    monkeypatch.setitem(sys.modules, "aiokafka.producer.producer", module_stub)
    monkeypatch.setitem(sys.modules, "aiokafka.record._crecords.default_records", module_stub)
    monkeypatch.delitem(sys.modules, "aiokafka.structs")
    with ExitStack() as stack:
        libraries_in(stack)
    assert "append" not in vars(module_stub.DefaultRecordBatchBuilder)


def test_a_library_that_is_loaded_later_is_found_then(monkeypatch: pytest.MonkeyPatch) -> None:
    structs_module = sys.modules["aiokafka.structs"]
    monkeypatch.delitem(sys.modules, "aiokafka.structs")
    with ExitStack() as stack:
        libraries = libraries_in(stack)
        assert "__hash__" not in vars(BrokerMetadata)
        monkeypatch.setitem(sys.modules, "aiokafka.structs", structs_module)
        libraries.lend()
        assert "__hash__" in vars(BrokerMetadata)
    assert "__hash__" not in vars(BrokerMetadata)


def test_an_attribute_is_replaced_for_subclasses_as_well_and_put_back() -> None:
    class Moment(datetime.datetime):
        """A subclass of ``datetime`` that exists before the patch."""

    real_method = native_attribute(datetime.date, "toordinal")
    assert real_method is not None
    moment = Moment(2026, 1, 1)
    expected_number = moment.toordinal()
    assert put_native_attribute(datetime.date, "toordinal", lambda _self: -1)
    try:
        assert moment.toordinal() == -1
    finally:
        assert put_native_attribute(datetime.date, "toordinal", real_method)
    assert moment.toordinal() == expected_number


def test_what_is_not_there_can_not_be_replaced() -> None:
    assert native_attribute(datetime.date, "of_no_class") is None
    assert not put_native_attribute(datetime.date, "of_no_class", 1)
    assert not hasattr(datetime.date, "of_no_class")


# Patches in front of functions, and the bindings where modules have bound them.


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


def patch_of(owner: RunThread) -> ThreadPatch:
    patch = ThreadPatch(clock, owner)
    patch.virtual = lambda: "virtual"
    return patch


def answers(module: types.ModuleType) -> dict[str, str]:
    """The value that each binding of ``SOURCE`` returns."""
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
    owner = RunThread()
    patch = patch_of(owner)
    assert patch.answer() == "real"
    owner.thread = get_ident()
    assert patch.answer() == "virtual"
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(patch.answer()))
    thread.start()
    thread.join()
    assert answers == ["real"]


def test_a_door_does_not_become_a_method_of_the_class_that_keeps_it() -> None:
    class Holder:
        now: Callable[..., str] = patch_of(RunThread()).answer

    assert Holder().now() == "real"


def test_each_place_of_a_module_is_found_and_put_back() -> None:
    owner = RunThread()
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
    assert list(bindings_in(module, {id(clock): patch_of(RunThread())})) == []


def names(bindings: tuple[Binding, ...]) -> list[object]:
    return [binding.real for binding in bindings]


def test_a_walk_finds_new_modules_and_leaves_out_the_standard_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walk = ModuleWalk({id(clock): patch_of(RunThread())})
    bindings_before = walk.bindings()
    monkeypatch.setitem(sys.modules, OWN_NAME, module_of("bound = clock"))
    monkeypatch.setitem(sys.modules, "queue.of_this_test", module_of("bound = clock"))
    monkeypatch.setitem(sys.modules, "not_a_module", object())  # type: ignore[arg-type]
    assert names(walk.bindings()) == [*names(bindings_before), clock]
    assert walk.bindings() == walk.bindings()


def test_what_is_being_imported_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    walk = ModuleWalk({id(clock): patch_of(RunThread())})
    module = module_of("")
    module.__spec__ = types.SimpleNamespace(_initializing=True)  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, OWN_NAME, module)
    count_before = len(walk.bindings())
    vars(module)["bound"] = clock
    assert len(walk.bindings()) == count_before + 1
    module.__spec__ = None
    assert len(walk.bindings()) == len(walk.bindings()) == count_before + 1
