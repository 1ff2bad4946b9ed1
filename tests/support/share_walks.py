"""Share partitions in random walks, as lines that our core and Kafka's own class are asked alike.

``python -m tests.support.share_walks`` records ``share_walks.jsonl`` again (Java 17, Maven).

A line is a word, the number of the write that may come of it, and arguments. An answer is what came
of it, `` # ``, and the state: start, end and next fetch offset, delivery complete count, whether
more can be acquired, and each record in flight as ``offset:state:count:member:p`` (in a write).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import java_classes, kafka_libs, tool
from tests.support.share_partitions import KEY
from txnsim.errors import Rejection
from txnsim.interbroker.share_state import ShareState, StateBatch
from txnsim.runtime.rng import SeededRng
from txnsim.share.commands import (
    AbortedRange,
    AcknowledgementBatch,
    Acquire,
    AcquireMode,
    DeadLetter,
    ReadBatch,
    SharePartitionSettings,
    Write,
)
from txnsim.share.partition import SharePartition

_SOURCE: Final = Path(__file__).with_name("java") / "share" / "ShareJudge.java"
RECORDED: Final = Path(__file__).with_name("share_walks.jsonl")
RECORDED_WALKS: Final = 40
STEPS: Final = 40
LOCK_MS: Final = 10


class Player:
    """Our core, asked by lines."""

    def __init__(self) -> None:
        self.now_ms = 0

    def play(self, line: str) -> str:
        word, number, *rest = line.split(" ")
        answer = getattr(self, f"_{word}")(int(number), *rest)
        return f"{answer} # {self._state()}"

    def _load(self, _: int, *words: str) -> str:
        limit, locks, lock_ms, dead, renew, start = map(int, words[:6])
        self.settings = SharePartitionSettings(
            delivery_count_limit=limit,
            max_record_locks=locks,
            record_lock_duration_ms=lock_ms,
            has_dead_letter_topic=bool(dead),
            is_renew_enabled=bool(renew),
        )
        self.partition = SharePartition(KEY, "orders", 3)
        self.partition.start_loading()
        batches = tuple(StateBatch(*map(int, one.split(":"))) for one in words[6:])
        read = ShareState(key=KEY, start_offset=start, batches=batches)
        letters = self.partition.load(read, -1, self.settings)
        assert not isinstance(letters, Rejection)
        self.letters: list[DeadLetter] = list(letters)
        self.writes: dict[int, int] = {}
        return ""

    def _fetch(self, _: int, *words: str) -> str:
        member, strict, batch_size, most, at, aborted, *batches = words
        found = []
        for one in batches:
            base, last, producer, transactional, marker = map(int, one.split(":"))
            found.append(
                ReadBatch(
                    base_offset=base,
                    last_offset=last,
                    producer_id=producer,
                    is_transactional=bool(transactional),
                    is_abort_marker=bool(marker),
                )
            )
        ranges = [] if aborted == "-" else [one.split(":") for one in aborted.split(",")]
        command = Acquire(
            member_id=member,
            mode=AcquireMode(int(strict)),
            batch_size=int(batch_size),
            max_records=int(most),
            fetch_offset=int(at),
            batches=tuple(found),
            aborted=tuple(AbortedRange(int(one), int(first)) for one, first in ranges),
        )
        got = self.partition.acquire(command, self.settings, self.now_ms)
        if isinstance(got, Rejection):
            return f"!{got.error.name.upper()} {got.reason}"
        words = tuple(
            f" {one.first_offset}-{one.last_offset}:{one.delivery_count}" for one in got.ranges
        )
        return f"{got.count}{''.join(words)}"

    def _ack(self, number: int, member: str, *words: str) -> str:
        batches = []
        for one in words:
            first, last, types = one.split(":")
            batches.append(
                AcknowledgementBatch(
                    first_offset=int(first),
                    last_offset=int(last),
                    types=tuple(map(int, types.split(","))),
                )
            )
        done = self.partition.acknowledge(member, batches, self.settings, self.now_ms)
        if not isinstance(done, Rejection):
            return self._written(number, done)
        is_null_pointer = done.error.name == "unknown_server_error"
        return f"!{done.error.name.upper()}{'' if is_null_pointer else f' {done.reason}'}"

    def _release(self, number: int, member: str) -> str:
        return self._written(number, self.partition.release(member, self.settings))

    def _time(self, number: int, now_ms: str) -> str:
        self.now_ms = int(now_ms)
        return self._written(number, self.partition.expire_locks(self.now_ms, self.settings))

    def _lso(self, _: int, offset: str) -> str:
        self.partition.move_log_start(int(offset))
        return ""

    def _answer(self, _: int, number: str, error: str) -> str:
        token = self.writes.pop(int(number))
        done = self.partition.conclude(token, int(error), "text", self.now_ms)
        self.letters += done.dead_letters
        return _map(
            {
                offset: f"{one.delivery_count}:{one.reason}"
                for one in done.dead_letters
                for offset in range(one.first_offset, one.last_offset + 1)
            }
        )

    def _letter(self, number: int, first: str, _: str) -> str:
        letter = next(one for one in self.letters if one.first_offset == int(first))
        self.letters.remove(letter)
        return self._written(number, self.partition.archive_dead_letter(letter.token))

    def _written(self, number: int, write: Write | None) -> str:
        if write is None:
            return ""
        self.writes[number] = write.token
        states = {
            offset: f"{one.delivery_state:d}:{one.delivery_count}"
            for one in write.state.batches
            for offset in range(one.first_offset, one.last_offset + 1)
        }
        return f"{write.state.start_offset} {write.state.delivery_complete_count} {_map(states)}"

    def _state(self) -> str:
        partition = self.partition
        head = (
            f"{partition.start_offset} {partition.end_offset} {partition.next_fetch_offset()} "
            f"{partition.delivery_complete_count} {partition.can_acquire(self.settings)} |".lower()
        )
        return head + "".join(
            f" {offset}:{one.state:d}:{one.delivery_count}:{one.member_id}:"
            + ("p" if one.is_being_persisted else "")
            for one in partition.in_flight()
            for offset in range(one.first_offset, one.last_offset + 1)
        )


def _map(values: Mapping[int, str]) -> str:
    """As Java writes a map."""
    return "{" + ", ".join(f"{key}={values[key]}" for key in sorted(values)) + "}"


class Walk:
    """Draws lines. What is drawn hangs on where our core stands."""

    def __init__(self, seed: int, player: Player) -> None:
        self.random = SeededRng(seed).stream("share walk")
        self.player = player
        self.log: list[ReadBatch] = []
        self.log_start = self.log_end = self.number = 0
        self.open: dict[int, int] = {}
        self.aborted: list[tuple[int, int, int]] = []
        self.said = ""

    def lines(self) -> Iterator[str]:
        """Each is to be played before the next is drawn."""
        yield self._load()
        draws = {
            self._append: 3,
            self._fetch: 10,
            self._acknowledge: 10,
            self._leave: 1,
            self._pass: 3,
            self._delete_records: 1,
            self._answer: 8,
            self._letter: 3,
            self._compact: 0.5,
        }
        for _ in range(STEPS):
            line = self.random.choices(list(draws), list(draws.values()))[0]()
            if line:
                yield line

    def _next(self) -> int:
        self.number += 1
        return self.number

    def _load(self) -> str:
        random = self.random
        limit, dead = random.choice([2, 3, 5, 10]), random.choice([0, 0, 1])
        start = at = random.choice([0, 0, 3])
        words = [limit, random.choice([4, 12, 2_000]), LOCK_MS, dead, random.choice([0, 1, 1])]
        batches = []
        for _ in range(random.choice([0, 0, 1, 2, 4])):
            first = at + random.choice([0, 0, 0, 2])
            at = first + random.randint(1, 6)
            state = random.choice([0, 0, 2, 4, 3 if dead else 0])
            batches.append(f"{first}:{at - 1}:{state}:{random.randint(1, limit - 1)}")
        while self.log_end < at + 3:
            self._append()
        return " ".join(["load 0", *map(str, words), str(start), *batches])

    def _append(self) -> str:
        random = self.random
        kind = random.choice(["plain", "plain", "open", "open", "abort", "hole"])
        self.log_end += random.randint(1, 3) if kind == "hole" else 0
        base, producer = self.log_end, random.randint(1, 2)
        if kind == "abort" and producer in self.open:
            self.aborted.append((producer, self.open.pop(producer), base))
            marker = ReadBatch(
                base_offset=base,
                last_offset=base,
                producer_id=producer,
                is_transactional=True,
                is_abort_marker=True,
            )
            self.log.append(marker)
            self.log_end += 1
            return ""
        is_open = kind == "open"
        self.log_end += random.randint(1, 5)
        if is_open:
            self.open.setdefault(producer, base)
        batch = ReadBatch(
            base_offset=base,
            last_offset=self.log_end - 1,
            producer_id=producer if is_open else -1,
            is_transactional=is_open,
        )
        self.log.append(batch)
        return ""

    def _compact(self) -> str:
        if len(self.log) > 3:
            del self.log[self.random.randrange(len(self.log) - 1)]
        return ""

    def _fetch(self) -> str:
        random, partition = self.random, self.player.partition
        at = partition.next_fetch_offset()
        if not partition.can_acquire(self.player.settings):
            return ""
        if at < self.log_start:
            return f"lso 0 {self.log_start}"
        found = [one for one in self.log if one.last_offset >= at][: random.randint(1, 5)]
        if not found:
            return ""
        aborted = [
            f"{producer}:{first}"
            for producer, first, last in self.aborted
            if last >= at and first <= found[-1].last_offset
        ]
        numbers = [random.randint(0, 1), random.randint(1, 9), random.randint(1, 9), at]
        batches = [
            f"{one.base_offset}:{one.last_offset}:{one.producer_id}:{one.is_transactional:d}:"
            f"{one.is_abort_marker:d}"
            for one in found
        ]
        member = random.choice("ab")
        return " ".join(
            [f"fetch 0 {member}", *map(str, numbers), ",".join(aborted) or "-", *batches]
        )

    def _acknowledge(self) -> str:
        random, partition, member = self.random, self.player.partition, self.random.choice("ab")
        held = [
            offset
            for one in partition.in_flight()
            if one.member_id == member
            for offset in range(one.first_offset, one.last_offset + 1)
        ]
        words = []
        before = -1
        for _ in range(random.choice([1, 1, 1, 2])):
            waiting = [offset for offset in held if offset > before]
            if not waiting and random.random() < 0.8:
                break
            first = waiting[0] if waiting else random.randint(0, partition.end_offset + 3)
            first = max(first + random.choice([0, 0, 0, 0, 0, 1, -1]), before + 1, 0)
            types = random.choices([0, 1, 2, 2, 3, 4], k=random.choice([1, 1, 2, 3, 5]))
            last = first + (random.choice([0, 2, 4, 11]) if len(types) == 1 else len(types) - 1)
            if random.random() < 0.8 and first in waiting:
                fits = (at for at in range(first, last + 1) if at == last or at + 1 not in waiting)
                last = next(fits)
                types = types[: last - first + 1]
            words.append(f"{first}:{last}:{','.join(map(str, types))}")
            before = last
        return " ".join([f"ack {self._next()} {member}", *words]) if words else ""

    def _leave(self) -> str:
        return f"release {self._next()} {self.random.choice('ab')}"

    def _pass(self) -> str:
        passed_ms = self.random.choice([1, LOCK_MS // 2, LOCK_MS])
        return f"time {self._next()} {self.player.now_ms + passed_ms}"

    def _delete_records(self) -> str:
        self.log_start = min(self.log_start + self.random.randint(1, 9), self.log_end)
        self.log = [one for one in self.log if one.last_offset >= self.log_start]
        return f"lso 0 {self.log_start}"

    def _answer(self) -> str:
        if not self.player.writes:
            return ""
        number = self.random.choice(sorted(self.player.writes))
        return f"answer 0 {number} {self.random.choice([0, 0, 0, 15])}"

    def _letter(self) -> str:
        if not self.player.letters:
            return ""
        letter = self.player.letters[0]
        return f"letter {self._next()} {letter.first_offset} {letter.last_offset}"


def walked(seeds: Sequence[int]) -> list[tuple[str, str]]:
    """Lines and what our core answers. A walk ends at a null pointer of Kafka's."""
    found = []
    player = Player()
    for seed in seeds:
        for line in Walk(seed, player).lines():
            found.append((line, player.play(line)))
            if found[-1][1].startswith("!UNKNOWN_SERVER_ERROR #"):
                break
    return found


def asked(lines: Sequence[str]) -> list[str]:
    """What Kafka's class answers."""
    libs = kafka_libs()
    classes = java_classes([_SOURCE], name="share", libs=libs)
    command = [tool("java", "SharePartition needs it"), "-cp", f"{classes}:{libs}/*"]
    done = subprocess.run(
        [*command, "kafka.server.share.ShareJudge"],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return [line for line in done.stdout.splitlines() if " # " in line]


def recorded() -> list[tuple[str, str]]:
    lines = RECORDED.read_text("utf-8").splitlines()
    return [(line, answer) for line, answer in map(json.loads, lines)]


if __name__ == "__main__":
    said = [line for line, _ in walked(range(RECORDED_WALKS))]
    answers = zip(said, asked(said), strict=True)
    RECORDED.write_text("".join(f"{json.dumps(one)}\n" for one in answers), "utf-8")
