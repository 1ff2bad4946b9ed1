"""Members of a group that join, stay, leave and fall silent in any order, in either protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.fuzz.target import Target, Violation
from tests.support.consumer_groups import ConsumerDriver, image
from tests.support.groups import ClassicDriver
from txnsim.errors import InvariantViolation
from txnsim.group._topics_hash import topics_hash
from txnsim.group.commands import TimerKind, TimerSet
from txnsim.group.state import ClassicGroupState

TOPIC_NAMES: Final = ("a", "b", "c", "gone")
IMAGE: Final = image(a=1, b=3, c=4)
REGEXES: Final = ("a.*", "[bc]", "x")
ASSIGNORS: Final = (None, "uniform", "range")
PROTOCOLS: Final = (
    (("range", b"r"),),
    (("sticky", b"s"), ("range", b"r")),
    (("sticky", b"s"),),
    (("range", b"r"), ("range", b"again")),
)
_MEMBERS: Final = 4


def _pairs(fuzz_bytes: bytes) -> Iterator[tuple[int, int, int]]:
    """(act, member, detail) of each step."""
    for index in range(0, len(fuzz_bytes) - 1, 2):
        yield fuzz_bytes[index] // _MEMBERS, fuzz_bytes[index] % _MEMBERS, fuzz_bytes[index + 1]


def _play_consumers(fuzz_bytes: bytes) -> None:
    driver = ConsumerDriver(IMAGE, max_size=_MEMBERS)
    for act_number, member_number, detail in _pairs(fuzz_bytes):
        member_id = f"m{member_number}"
        member = driver.group.members.get(member_id)
        epoch = 0 if member is None else member.member_epoch
        instance_id = f"i{member_number}" if detail & 128 else None
        match act_number % 6:
            case 0:
                names = [name for bit, name in enumerate(TOPIC_NAMES) if detail >> bit & 1]
                options = {
                    "server_assignor": ASSIGNORS[detail // 16 % 3],
                    "instance_id": instance_id,
                }
                driver.join(member_id, *names, **options)
            case 1:
                driver.join(member_id, topic_regex=REGEXES[detail % 3])
                driver.look_up()
            case 2:
                owned_partitions = frozenset(() if member is None else member.assigned)
                driver.beat(
                    member_id, epoch, owned_partitions=owned_partitions if detail & 1 else None
                )
            case 3:
                driver.beat(member_id, -2 if detail & 1 else -1, instance_id=instance_id)
            case 4:
                timer_kind = TimerKind.HEARTBEAT if detail & 1 else TimerKind.REVOCATION
                timers = [
                    TimerSet(
                        kind=timer_kind,
                        group_id="g",
                        member_id=timer_member,
                        delay_ms=1,
                        generation=epoch,
                    )
                    for timer_member in {member_id, f"m{detail % _MEMBERS}"}
                ]
                driver.take(
                    driver.protocol.remove_late_members(driver.group, timers, image=driver.image)
                )
            case _:
                driver.now_ms += detail * 1_000
        _check_consumers(driver)


def _check_consumers(driver: ConsumerDriver) -> None:
    group = driver.group
    members = group.members.values()
    consumed_topics = {name for member in members for name in group.topics_of(member)}
    if group.tally.topics_hash(IMAGE) != topics_hash(consumed_topics, IMAGE):
        raise Violation("the hash is not that of the topics consumed")
    if any(group.has_subscriber(name) != (name in consumed_topics) for name in TOPIC_NAMES):
        raise Violation("topics are counted that nobody consumes, or the other way round")
    regexes = [member.topic_regex for member in members if member.topic_regex]
    if group.tally.regexes != {regex: regexes.count(regex) for regex in regexes}:
        raise Violation("regular expressions are counted otherwise")
    owners = [partition for member in members for partition in member.assigned]
    if len(owners) != len(set(owners)):
        raise Violation("a partition has two owners")
    replayed_group = driver.replay_log()
    if (replayed_group.members, replayed_group.target, replayed_group.epoch) != (
        group.members,
        group.target,
        group.epoch,
    ):
        raise Violation("the log makes another group")


def _play_classic(fuzz_bytes: bytes) -> None:
    driver = ClassicDriver(max_size=_MEMBERS)
    for act_number, number, detail in _pairs(fuzz_bytes):
        ids = tuple(driver.group.members)
        member_id = ids[number % len(ids)] if ids else ""
        try:
            _act(driver, act_number % 7, member_id, detail)
        except InvariantViolation as error:
            if "handed out to a dynamic member" not in str(error):
                raise
        _check_classic(driver)


def _act(driver: ClassicDriver, act_number: int, member_id: str, detail: int) -> None:
    protocols = PROTOCOLS[detail % len(PROTOCOLS)]
    match act_number:
        case 0:
            instance_id = f"i{detail % 3}" if detail & 128 else None
            driver.join(
                instance_id=instance_id,
                protocols=protocols,
                is_member_id_required=bool(detail & 64),
            )
        case 1:
            driver.join(member_id, protocols=protocols)
        case 2:
            driver.sync(member_id, assignments={member_id: b"x"})
        case 3:
            driver.heartbeat(member_id)
        case 4:
            driver.leave((member_id, None), (f"m{detail}", None))
        case 5:
            timers = sorted(driver.timers, key=lambda timer: (timer[0].value, timer[1]))
            if timers:
                driver.fire(*timers[detail % len(timers)])
        case _:
            if driver.writes:
                driver.write()


def _check_classic(driver: ClassicDriver) -> None:
    group = driver.group
    joining_count = sum(member.awaiting_join is not None for member in group.members.values())
    if group.awaiting_join_count != joining_count:
        raise Violation(f"{group.awaiting_join_count} members are counted, {joining_count} wait")
    # As a real broker does, it counts names: who names a protocol twice counts twice.
    names = [name for member in group.members.values() for name, _ in member.protocols]
    for name in ("range", "sticky", "none"):
        if group.state is ClassicGroupState.EMPTY:
            continue
        is_common = 0 < names.count(name) == len(group.members)
        if group.supports("consumer", [(name, b"")]) != is_common:
            raise Violation(f"whether all support {name} is counted otherwise")


def _seeds() -> Iterator[bytes]:
    yield bytes((0, 1, 1, 3, 8, 0, 2, 7, 8, 1, 9, 1, 12, 0, 16, 1))
    yield bytes((4, 0, 5, 1, 0, 129, 12, 129, 0, 129, 20, 20, 4, 2, 17, 0))
    yield bytes((0, 0, 20, 0, 20, 0, 8, 0, 24, 0, 12, 0, 4, 1, 0, 64, 20, 1, 16, 0))
    yield bytes((0, 128, 0, 129, 20, 0, 8, 0, 24, 0, 0, 128, 24, 0, 17, 1))


TARGETS: Final = {
    "groups": Target(play=_play_consumers, seeds=_seeds, length_max=256),
    "classic-groups": Target(play=_play_classic, seeds=_seeds, length_max=256),
}
