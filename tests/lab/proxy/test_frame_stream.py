"""One direction: what passes goes on as it came, what is asked for is whole, in any cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnsim_lab.proxy._frame_stream import Course, FrameStream


def frame(kind: bytes, size: int = 3) -> bytes:
    body = kind + b"." * (size - 1)
    return len(body).to_bytes(4, "big") + body


class Seen:
    """A stream whose frames say their course by their first letter, and what became of them."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.taken: list[bytes] = []
        self.ended = 0
        self.holds = False
        self.stream = FrameStream(
            head_bytes=5,
            decide=self.decide,
            take=self.take,
            ended=self.note_end,
            grown=lambda: None,
        )
        self.stream.write = self.written.append

    def decide(self, data: bytes, position: int, end: int) -> Course:
        kind = data[position + 4 : position + 5]
        if kind == b"m" and end - position < 7:
            return Course.MORE
        return {b"w": Course.WHOLE, b"s": Course.SKIP, b"r": Course.RAW}.get(kind, Course.PASS)

    def take(self, pieces: list[bytes]) -> None:
        self.taken.append(b"".join(pieces))
        self.written.append(b"<taken>")
        if self.holds:
            self.stream.stop()

    def note_end(self) -> None:
        self.ended += 1

    @property
    def bytes(self) -> bytes:
        return b"".join(self.written)


def test_a_chunk_of_frames_that_pass_is_written_as_it_came() -> None:
    seen = Seen()
    chunk = frame(b"p") * 5
    seen.stream.feed(chunk)
    assert seen.written == [chunk]
    assert seen.written[0] is chunk, "nothing is copied"


@given(letters=st.text("pwsm", max_size=8), cuts=st.binary(min_size=1, max_size=8))
def test_the_same_comes_out_however_bytes_come_in(letters: str, cuts: bytes) -> None:
    kinds = [letter.encode() for letter in letters]
    whole = b"".join(frame(kind, 4) for kind in kinds)
    seen = Seen()
    position = 0
    while position < len(whole):
        step = 1 + cuts[position % len(cuts)] % 11
        seen.stream.feed(whole[position : position + step])
        position += step
    expected = {b"w": b"<taken>", b"s": b""}
    assert seen.bytes == b"".join(expected.get(kind, frame(kind, 4)) for kind in kinds)
    assert seen.taken == [frame(kind, 4) for kind in kinds if kind == b"w"]


def test_a_direction_that_is_stopped_keeps_what_comes_and_goes_on_in_order() -> None:
    seen = Seen()
    seen.holds = True
    seen.stream.feed(frame(b"p") + frame(b"w") + frame(b"p") + frame(b"w") + b"\0\0")
    assert (seen.bytes, len(seen.taken)) == (frame(b"p") + b"<taken>", 1)
    seen.stream.feed(b"\0\3p..")
    assert seen.stream.is_stopped
    assert seen.stream.backlog_bytes == 7 + 7 + 2 + 5
    seen.stream.go_on()
    assert len(seen.taken) == 2
    seen.stream.go_on()
    assert seen.bytes == frame(b"p") + b"<taken>" + frame(b"p") + b"<taken>" + frame(b"p")
    assert seen.stream.backlog_bytes == 0


def test_ends_are_told_where_somebody_watches_them() -> None:
    seen = Seen()
    seen.stream.feed(frame(b"p"))
    seen.stream.watches_ends = True
    seen.stream.feed(frame(b"p")[:-1])
    assert seen.ended == 0
    seen.stream.feed(b"." + frame(b"s"))
    assert seen.ended == 2


def test_what_is_no_frame_passes_for_ever() -> None:
    seen = Seen()
    rest = b"\xff\xff\xff\xffr any bytes"
    seen.stream.feed(rest)
    seen.stream.feed(frame(b"w"))
    assert seen.bytes == rest + frame(b"w")


def test_what_was_forgotten_is_never_written() -> None:
    seen = Seen()
    seen.stream.stop()
    seen.stream.feed(frame(b"p"))
    seen.stream.forget()
    seen.stream.go_on()
    assert seen.bytes == b""
    assert seen.stream.backlog_bytes == 0


def test_who_writes_to_nobody_loses_it() -> None:
    stream = FrameStream(
        head_bytes=4,
        decide=lambda *_: Course.PASS,
        take=lambda _: pytest.fail("nothing is collected"),
        ended=lambda: pytest.fail("no ends are watched"),
        grown=lambda: pytest.fail("nothing waits"),
    )
    stream.feed(frame(b"p"))
