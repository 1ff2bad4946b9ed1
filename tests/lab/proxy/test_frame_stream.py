"""One direction: what passes goes on as it came, what is asked for is whole, in any cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnsim_lab.proxy._frame_stream import FrameHandling, FrameStream


def frame(kind: bytes, size: int = 3) -> bytes:
    body = kind + b"." * (size - 1)
    return len(body).to_bytes(4, "big") + body


class ObservedStream:
    """A stream whose frames say their course by their first letter, and what became of them."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.taken: list[bytes] = []
        self.ended = 0
        self.holds = False
        self.stream = FrameStream(
            head_bytes=5,
            decide_handling=self.decide,
            take_frame=self.take,
            on_frame_end=self.note_end,
            on_backlog_change=lambda: None,
        )
        self.stream.write = self.written.append

    def decide(self, frame_bytes: bytes, position: int, end: int) -> FrameHandling:
        kind = frame_bytes[position + 4 : position + 5]
        if kind == b"m" and end - position < 7:
            return FrameHandling.NEED_MORE
        return {
            b"w": FrameHandling.COLLECT,
            b"s": FrameHandling.SKIP,
            b"r": FrameHandling.NO_FRAME,
        }.get(kind, FrameHandling.PASS)

    def take(self, chunks: list[bytes]) -> None:
        self.taken.append(b"".join(chunks))
        self.written.append(b"<taken>")
        if self.holds:
            self.stream.pause()

    def note_end(self) -> None:
        self.ended += 1

    @property
    def bytes(self) -> bytes:
        return b"".join(self.written)


def test_a_chunk_of_frames_that_pass_is_written_as_it_came() -> None:
    observed_stream = ObservedStream()
    chunk = frame(b"p") * 5
    observed_stream.stream.feed(chunk)
    assert observed_stream.written == [chunk]
    assert observed_stream.written[0] is chunk, "nothing is copied"


@given(letters=st.text("pwsm", max_size=8), cuts=st.binary(min_size=1, max_size=8))
def test_the_same_comes_out_however_bytes_come_in(letters: str, cuts: bytes) -> None:
    kinds = [letter.encode() for letter in letters]
    all_frames = b"".join(frame(kind, 4) for kind in kinds)
    observed_stream = ObservedStream()
    position = 0
    while position < len(all_frames):
        step = 1 + cuts[position % len(cuts)] % 11
        observed_stream.stream.feed(all_frames[position : position + step])
        position += step
    expected = {b"w": b"<taken>", b"s": b""}
    assert observed_stream.bytes == b"".join(expected.get(kind, frame(kind, 4)) for kind in kinds)
    assert observed_stream.taken == [frame(kind, 4) for kind in kinds if kind == b"w"]


def test_a_direction_that_is_stopped_keeps_what_comes_and_goes_on_in_order() -> None:
    observed_stream = ObservedStream()
    observed_stream.holds = True
    observed_stream.stream.feed(frame(b"p") + frame(b"w") + frame(b"p") + frame(b"w") + b"\0\0")
    assert (observed_stream.bytes, len(observed_stream.taken)) == (frame(b"p") + b"<taken>", 1)
    observed_stream.stream.feed(b"\0\3p..")
    assert observed_stream.stream.is_paused
    assert observed_stream.stream.backlog_bytes == 7 + 7 + 2 + 5
    observed_stream.stream.resume()
    assert len(observed_stream.taken) == 2
    observed_stream.stream.resume()
    assert observed_stream.bytes == frame(b"p") + b"<taken>" + frame(b"p") + b"<taken>" + frame(
        b"p"
    )
    assert observed_stream.stream.backlog_bytes == 0


def test_ends_are_told_where_somebody_watches_them() -> None:
    observed_stream = ObservedStream()
    observed_stream.stream.feed(frame(b"p"))
    observed_stream.stream.watches_ends = True
    observed_stream.stream.feed(frame(b"p")[:-1])
    assert observed_stream.ended == 0
    observed_stream.stream.feed(b"." + frame(b"s"))
    assert observed_stream.ended == 2


def test_what_is_no_frame_passes_for_ever() -> None:
    observed_stream = ObservedStream()
    other_bytes = b"\xff\xff\xff\xffr any bytes"
    observed_stream.stream.feed(other_bytes)
    observed_stream.stream.feed(frame(b"w"))
    assert observed_stream.bytes == other_bytes + frame(b"w")


def test_what_was_forgotten_is_never_written() -> None:
    observed_stream = ObservedStream()
    observed_stream.stream.pause()
    observed_stream.stream.feed(frame(b"p"))
    observed_stream.stream.forget()
    observed_stream.stream.resume()
    assert observed_stream.bytes == b""
    assert observed_stream.stream.backlog_bytes == 0


def test_who_writes_to_nobody_loses_it() -> None:
    stream = FrameStream(
        head_bytes=4,
        decide_handling=lambda *_: FrameHandling.PASS,
        take_frame=lambda _: pytest.fail("nothing is collected"),
        on_frame_end=lambda: pytest.fail("no ends are watched"),
        on_backlog_change=lambda: pytest.fail("nothing waits"),
    )
    stream.feed(frame(b"p"))
