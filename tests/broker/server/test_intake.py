from __future__ import annotations

import asyncio
from unittest.mock import create_autospec

from txnsim.runtime.turns import READ_BYTES, Turns
from txnsim.server._connection import FRAME_BYTES, Intake


def framed(size: int) -> bytes:
    return size.to_bytes(4, "big") + bytes(size)


def test_nothing_that_is_forgotten_counts() -> None:
    intake = Intake(1_000)
    intake.frames.append(b"x")
    intake.queued_bytes = 1 + FRAME_BYTES
    intake.forget()
    assert (len(intake.frames), intake.queued_bytes) == (0, 0)


def test_what_is_there_of_a_frame_goes_with_its_connection() -> None:
    intake = Intake(1_000)
    intake.frames.extend(intake.reader.receive_data(framed(1) + framed(900)[:800]))
    intake.close()
    assert (len(intake.frames), intake.queued_bytes, intake.reader.buffered_bytes) == (0, 0, 0)


def test_reading_stops_above_the_limit_and_goes_on_at_half_of_it() -> None:
    transport = create_autospec(asyncio.Transport, instance=True)
    transport.is_closing.return_value = False
    intake = Intake(1_000)
    paused = []
    for waiting_bytes in (100, 101, 51, 50, 0):
        intake.queued_bytes = waiting_bytes
        intake.keep_within(100, transport)
        paused.append(intake.is_paused)
    assert paused == [False, True, True, False, False]
    assert transport.pause_reading.call_count == transport.resume_reading.call_count == 1


def test_a_socket_that_closes_is_left_alone() -> None:
    transport = create_autospec(asyncio.Transport, instance=True)
    transport.is_closing.return_value = True
    intake = Intake(1_000)
    intake.frames.append(bytes(10))
    intake.queued_bytes = 10
    for found in (transport, None):
        intake.keep_within(0, found)
    assert not intake.is_paused
    assert not transport.pause_reading.called


async def test_of_large_requests_one_is_read_in_each_turn() -> None:
    """Also where what it has sent before makes it wait, or its connection closes meanwhile."""
    turns = Turns(asyncio.get_running_loop())
    line = []
    for _ in range(4):
        transport = create_autospec(asyncio.Transport, instance=True)
        transport.is_closing.return_value = False
        line.append((Intake(1_000), transport))
    for intake, transport in line:
        intake.read_by_turns(READ_BYTES - 1 if intake is line[0][0] else 1, turns.reads, transport)
        intake.read_by_turns(1, turns.reads, transport)
    assert [transport.pause_reading.call_count for _, transport in line] == [1, 1, 1, 1]
    line[1][0].queued_bytes = 200
    line[1][0].keep_within(100, line[1][1])
    line[2][1].is_closing.return_value = True
    resumed = []
    for _ in range(4):
        await asyncio.sleep(0)
        resumed.append([transport.resume_reading.call_count for _, transport in line])
    assert resumed == [[1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 1]]
    line[1][0].queued_bytes = 0
    line[1][0].keep_within(100, line[1][1])
    assert line[1][1].resume_reading.call_count == line[1][1].pause_reading.call_count == 1
    assert not turns.reads.have_read(1)
