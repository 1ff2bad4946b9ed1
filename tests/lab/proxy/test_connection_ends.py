"""A side is read exactly as far as is wanted, and its bytes go to its direction."""

from __future__ import annotations

import asyncio
from typing import Any

from txnsim_lab.proxy._connection_ends import BrokerEnd, ClientEnd
from txnsim_lab.proxy._frame_stream import FrameHandling, FrameStream


class EndListener:
    """Notes the calls that both ends of a connection make."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def pause_or_resume_reading(self) -> None:
        self.heard.append("reading")

    def client_connected(self) -> None:
        self.heard.append("connected")

    def client_lost(self, exc: Exception | None) -> None:
        self.heard.append(f"client lost {exc}")

    def broker_lost(self, exc: Exception | None) -> None:
        self.heard.append(f"broker lost {exc}")

    def close(self) -> None:
        self.heard.append("closed")


class Wire(asyncio.Transport):
    """A transport that notes the calls of its methods."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def is_closing(self) -> bool:
        return "close" in self.asked

    def pause_reading(self) -> None:
        self.asked.append("pause")

    def resume_reading(self) -> None:
        self.asked.append("resume")

    def close(self) -> None:
        self.asked.append("close")

    def abort(self) -> None:
        self.asked.append("abort")


def stream(written_frames: list[bytes]) -> FrameStream:
    frame_stream = FrameStream(
        head_bytes=4,
        decide_handling=lambda *_: FrameHandling.PASS,
        take_frame=lambda _: None,
        on_frame_end=lambda: None,
        on_backlog_change=lambda: None,
    )
    frame_stream.write = written_frames.append
    return frame_stream


def test_a_side_is_paused_and_resumed_once_each() -> None:
    listener_told, written_frames, wire = EndListener(), list[bytes](), Wire()
    end: Any = ClientEnd(listener_told, stream(written_frames))
    end.read(is_wanted=False)
    assert wire.asked == [], "there is no connection yet"
    end.connection_made(wire)
    for is_wanted in (True, False, False, True, True):
        end.read(is_wanted=is_wanted)
    assert wire.asked == ["pause", "resume"]
    end.data_received(b"\0\0\0\1x")
    assert written_frames == [b"\0\0\0\1x"]
    end.pause_writing()
    assert end.is_full
    end.resume_writing()
    assert not end.is_full
    end.connection_lost(None)
    assert listener_told.heard == ["connected", "reading", "reading", "client lost None"]


def test_a_side_closes_if_it_is_there() -> None:
    listener_told, wire = EndListener(), Wire()
    end: Any = BrokerEnd(listener_told, stream([]))
    end.close()
    end.abort()
    end.connection_made(wire)
    end.abort()
    end.close()
    assert wire.asked == ["abort", "close"]
    end.read(is_wanted=False)
    assert wire.asked == ["abort", "close"], "who is closing is left alone"
    end.connection_lost(OSError("reset"))
    assert listener_told.heard == ["broker lost reset"]
