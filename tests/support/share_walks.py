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
from txnsim.runtime.rng import RandomStreams
from txnsim.share.commands import (
    AbortedRange,
    AcknowledgementBatch,
    AcquireCommand,
    AcquireMode,
    DeadLetter,
    ReadBatch,
    SharePartitionSettings,
    StateWrite,
)
from txnsim.share.partition import SharePartition

_SOURCE: Final = Path(__file__).with_name("java") / "share" / "ShareJudge.java"
RECORDED: Final = Path(__file__).with_name("share_walks.jsonl")
RECORDED_WALKS: Final = 100
STEPS: Final = 40
LOCK_MS: Final = 10


class Player:
    """Plays commands, each a line of text, on our share partition."""

    def __init__(self) -> None:
        self.now_ms = 0

    def play(self, line: str) -> str:
        step_name, number, *arguments = line.split(" ")
        answer = getattr(self, f"_{step_name}")(int(number), *arguments)
        return f"{answer} # {self._state()}"

    def _load(self, _: int, *arguments: str) -> str:
        limit, locks, lock_ms, has_dead_letters, renew, start = map(int, arguments[:6])
        self.settings = SharePartitionSettings(
            delivery_count_limit=limit,
            max_record_locks=locks,
            record_lock_duration_ms=lock_ms,
            has_dead_letter_topic=bool(has_dead_letters),
            is_renew_enabled=bool(renew),
        )
        self.partition = SharePartition(KEY, "orders", 3)
        self.partition.start_loading()
        batches = tuple(
            StateBatch(*map(int, batch_text.split(":"))) for batch_text in arguments[6:]
        )
        read_state = ShareState(key=KEY, start_offset=start, batches=batches)
        letters = self.partition.load(read_state, -1, self.settings)
        assert not isinstance(letters, Rejection)
        self.letters: list[DeadLetter] = list(letters)
        self.writes: dict[int, int] = {}
        return ""

    def _fetch(self, _: int, *arguments: str) -> str:
        member, strict, batch_size, record_limit, fetch_offset, aborted, *batches = arguments
        read_batches = []
        for batch_text in batches:
            base_offset, last_offset, producer, transactional, marker = map(
                int, batch_text.split(":")
            )
            read_batches.append(
                ReadBatch(
                    base_offset=base_offset,
                    last_offset=last_offset,
                    producer_id=producer,
                    is_transactional=bool(transactional),
                    is_abort_marker=bool(marker),
                )
            )
        ranges = (
            [] if aborted == "-" else [range_text.split(":") for range_text in aborted.split(",")]
        )
        command = AcquireCommand(
            member_id=member,
            mode=AcquireMode(int(strict)),
            batch_size=int(batch_size),
            max_records=int(record_limit),
            fetch_offset=int(fetch_offset),
            batches=tuple(read_batches),
            aborted=tuple(
                AbortedRange(int(producer), int(first_offset)) for producer, first_offset in ranges
            ),
        )
        acquired = self.partition.acquire(command, self.settings, self.now_ms)
        if isinstance(acquired, Rejection):
            return f"!{acquired.error.name.upper()} {acquired.reason}"
        arguments = tuple(
            f" {locked_range.first_offset}-{locked_range.last_offset}:{locked_range.delivery_count}"
            for locked_range in acquired.ranges
        )
        return f"{acquired.count}{''.join(arguments)}"

    def _ack(self, number: int, member: str, *arguments: str) -> str:
        batches = []
        for ack_text in arguments:
            first_offset, last_offset, types = ack_text.split(":")
            batches.append(
                AcknowledgementBatch(
                    first_offset=int(first_offset),
                    last_offset=int(last_offset),
                    types=tuple(map(int, types.split(","))),
                )
            )
        outcome = self.partition.acknowledge(member, batches, self.settings, self.now_ms)
        if not isinstance(outcome, Rejection):
            return self._note_write(number, outcome)
        is_null_pointer = outcome.error.name == "unknown_server_error"
        return f"!{outcome.error.name.upper()}{'' if is_null_pointer else f' {outcome.reason}'}"

    def _release(self, number: int, member: str) -> str:
        return self._note_write(number, self.partition.release(member, self.settings))

    def _time(self, number: int, now_ms: str) -> str:
        self.now_ms = int(now_ms)
        return self._note_write(number, self.partition.expire_locks(self.now_ms, self.settings))

    def _lso(self, _: int, offset: str) -> str:
        self.partition.move_log_start(int(offset))
        return ""

    def _answer(self, _: int, number: str, error: str) -> str:
        token = self.writes.pop(int(number))
        concluded_write = self.partition.conclude(token, int(error), "text", self.now_ms)
        self.letters += concluded_write.dead_letters
        return _map(
            {
                offset: f"{letter.delivery_count}:{letter.reason}"
                for letter in concluded_write.dead_letters
                for offset in range(letter.first_offset, letter.last_offset + 1)
            }
        )

    def _letter(self, number: int, first_offset: str, _: str) -> str:
        letter = next(letter for letter in self.letters if letter.first_offset == int(first_offset))
        self.letters.remove(letter)
        return self._note_write(number, self.partition.archive_dead_letter(letter.token))

    def _note_write(self, write_number: int, write: StateWrite | None) -> str:
        if write is None:
            return ""
        self.writes[write_number] = write.token
        states = {
            offset: f"{batch.delivery_state:d}:{batch.delivery_count}"
            for batch in write.state.batches
            for offset in range(batch.first_offset, batch.last_offset + 1)
        }
        return f"{write.state.start_offset} {write.state.delivery_complete_count} {_map(states)}"

    def _state(self) -> str:
        partition = self.partition
        head_text = (
            f"{partition.start_offset} {partition.end_offset} {partition.next_fetch_offset()} "
            f"{partition.delivery_complete_count} {partition.can_acquire(self.settings)} |".lower()
        )
        return head_text + "".join(
            f" {offset}:{batch.state:d}:{batch.delivery_count}:{batch.member_id}:"
            + ("p" if batch.is_being_persisted else "")
            for batch in partition.in_flight_ranges()
            for offset in range(batch.first_offset, batch.last_offset + 1)
        )


def _map(values: Mapping[int, str]) -> str:
    """A map as Java prints it."""
    return "{" + ", ".join(f"{key}={values[key]}" for key in sorted(values)) + "}"


class LineWalk:
    """Draws command lines, depending on the state of our share partition."""

    def __init__(self, seed: int, player: Player) -> None:
        self.random = RandomStreams(seed).stream("share walk")
        self.player = player
        self.log: list[ReadBatch] = []
        self.log_start = self.log_end = self.number = 0
        self.open: dict[int, int] = {}
        self.aborted: list[tuple[int, int, int]] = []

    def lines(self) -> Iterator[str]:
        """Draw lines; each must be played before the next is drawn."""
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
        limit, has_dead_letters = random.choice([2, 3, 5, 10]), random.choice([0, 0, 1])
        start = next_offset = random.choice([0, 0, 3])
        numbers = [
            limit,
            random.choice([4, 12, 2_000]),
            LOCK_MS,
            has_dead_letters,
            random.choice([0, 1, 1]),
        ]
        batches = []
        for _ in range(random.choice([0, 0, 1, 2, 4])):
            first_offset = next_offset + random.choice([0, 0, 0, 2])
            next_offset = first_offset + random.choice([1, 2, 3, 4, 6, 12, 16])
            state = random.choice([0, 0, 2, 4, 3 if has_dead_letters else 0])
            batches.append(
                f"{first_offset}:{next_offset - 1}:{state}:{random.randint(1, limit - 1)}"
            )
        while self.log_end < next_offset + 3:
            self._append()
        return " ".join(["load 0", *map(str, numbers), str(start), *batches])

    def _append(self) -> str:
        random = self.random
        kind = random.choice(["plain", "plain", "open", "open", "abort", "hole"])
        self.log_end += random.randint(1, 3) if kind == "hole" else 0
        base_offset, producer = self.log_end, random.randint(1, 2)
        if kind == "abort" and producer in self.open:
            self.aborted.append((producer, self.open.pop(producer), base_offset))
            marker = ReadBatch(
                base_offset=base_offset,
                last_offset=base_offset,
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
            self.open.setdefault(producer, base_offset)
        batch = ReadBatch(
            base_offset=base_offset,
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
        fetch_offset = partition.next_fetch_offset()
        if not partition.can_acquire(self.player.settings) and random.random() < 0.8:
            return ""
        if fetch_offset < self.log_start:
            return f"lso 0 {self.log_start}"
        fetched_batches = [batch for batch in self.log if batch.last_offset >= fetch_offset][
            : random.randint(1, 5)
        ]
        if not fetched_batches:
            return ""
        aborted = [
            f"{producer}:{first_offset}"
            for producer, first_offset, last_offset in self.aborted
            if last_offset >= fetch_offset and first_offset <= fetched_batches[-1].last_offset
        ]
        max_records = random.choice([0, *range(1, 10)])
        numbers = [random.randint(0, 1), random.randint(1, 9), max_records, fetch_offset]
        batches = [
            f"{batch.base_offset}:{batch.last_offset}:{batch.producer_id}:{batch.is_transactional:d}:"
            f"{batch.is_abort_marker:d}"
            for batch in fetched_batches
        ]
        member = random.choice("ab")
        return " ".join(
            [f"fetch 0 {member}", *map(str, numbers), ",".join(aborted) or "-", *batches]
        )

    def _acknowledge(self) -> str:
        random, partition, member = self.random, self.player.partition, self.random.choice("ab")
        held_offsets = [
            offset
            for batch in partition.in_flight_ranges()
            if batch.member_id == member
            for offset in range(batch.first_offset, batch.last_offset + 1)
        ]
        acknowledgements = []
        previous_offset = -1
        for _ in range(random.choice([1, 1, 1, 2])):
            waiting_offsets = [offset for offset in held_offsets if offset > previous_offset]
            if not waiting_offsets and random.random() < 0.8:
                break
            first_offset = (
                waiting_offsets[0]
                if waiting_offsets
                else random.randint(0, partition.end_offset + 3)
            )
            first_offset = max(
                first_offset + random.choice([0, 0, 0, 0, 0, 1, -1]), previous_offset + 1, 0
            )
            types = random.choices([0, 1, 2, 2, 3, 4], k=random.choice([1, 1, 2, 3, 5]))
            last_offset = first_offset + (
                random.choice([0, 2, 4, 11]) if len(types) == 1 else len(types) - 1
            )
            if random.random() < 0.8 and first_offset in waiting_offsets:
                run_ends = (
                    offset
                    for offset in range(first_offset, last_offset + 1)
                    if offset == last_offset or offset + 1 not in waiting_offsets
                )
                last_offset = next(run_ends)
                types = types[: last_offset - first_offset + 1]
            acknowledgements.append(f"{first_offset}:{last_offset}:{','.join(map(str, types))}")
            previous_offset = last_offset
        return (
            " ".join([f"ack {self._next()} {member}", *acknowledgements])
            if acknowledgements
            else ""
        )

    def _leave(self) -> str:
        return f"release {self._next()} {self.random.choice('ab')}"

    def _pass(self) -> str:
        passed_ms = self.random.choice([1, LOCK_MS // 2, LOCK_MS])
        return f"time {self._next()} {self.player.now_ms + passed_ms}"

    def _delete_records(self) -> str:
        self.log_start = min(self.log_start + self.random.randint(1, 9), self.log_end)
        self.log = [batch for batch in self.log if batch.last_offset >= self.log_start]
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


def play_walks(seeds: Sequence[int]) -> list[tuple[str, str]]:
    """Lines with our answers. A walk ends where Kafka would throw a NullPointerException."""
    answered_lines = []
    player = Player()
    for seed in seeds:
        for line in LineWalk(seed, player).lines():
            answered_lines.append((line, player.play(line)))
            if answered_lines[-1][1].startswith("!UNKNOWN_SERVER_ERROR #"):
                break
    return answered_lines


def ask_kafka(lines: Sequence[str]) -> list[str]:
    """The answers of Kafka's SharePartition to the lines."""
    libs_directory = kafka_libs()
    class_directory = java_classes([_SOURCE], name="share", libs_directory=libs_directory)
    command = [
        tool("java", "SharePartition needs it"),
        "-cp",
        f"{class_directory}:{libs_directory}/*",
    ]
    process = subprocess.run(
        [*command, "kafka.server.share.ShareJudge"],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return [printed_line for printed_line in process.stdout.splitlines() if " # " in printed_line]


def recorded_answers() -> list[tuple[str, str]]:
    lines = RECORDED.read_text("utf-8").splitlines()
    return [(line, answer) for line, answer in map(json.loads, lines)]


if __name__ == "__main__":
    lines = [line for line, _ in play_walks(range(RECORDED_WALKS))]
    answers = zip(lines, ask_kafka(lines), strict=True)
    RECORDED.write_text("".join(f"{json.dumps(pair)}\n" for pair in answers), "utf-8")
