"""Chooses the players of applications, before anything starts, so that a wish that can't be
fulfilled costs nothing.
"""

from __future__ import annotations

import asyncio
import functools
import shlex
import shutil
import warnings
from collections.abc import Callable
from typing import Final

import msgspec

from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.producer import Producer, RecordMetadata
from txnsim.errors import ClientError, ConfigError, MissingExtraError
from txnsim.text import unknown_word_message
from txnsim.types import TopicPartition
from txnsim_lab.scenario.players._base import (
    DELIVERY_TIMEOUT_MS,
    PLAYERS,
    REQUEST_TIMEOUT_MS,
    ApplicationPlayer,
    PlayerPart,
)

PIP_LINE: Final = MissingExtraError.pip_line("demo")


class Casting(msgspec.Struct, frozen=True, kw_only=True):
    """The wish which player shall play the applications."""

    player: str | None = None
    """``own`` or ``kafka-python``; unless given, the first player of the run that is installed."""
    program: str | None = None
    """A command that plays the application instead (see ``players.program``)."""
    make: Callable[[PlayerPart], ApplicationPlayer] | None = None
    """Makes a player that is not listed here: another client library in this process."""


class Cast(msgspec.Struct, frozen=True, kw_only=True):
    """The chosen player of an application."""

    make: Callable[[PlayerPart], ApplicationPlayer]
    program: bool = False
    remark: str = ""
    """Why the preferred player was not chosen."""


def cast(able_players: tuple[str, ...], casting: Casting, *, run_name: str) -> Cast:
    """Choose the player of an application.

    Raises:
        ConfigError: There is no such player or program, or it can't play in this run.
        MissingExtraError: The library of the player is not installed.
    """
    if casting.make is not None:
        return Cast(make=casting.make)
    if casting.program is not None:
        command = words(casting.program)
        return Cast(make=functools.partial(ProgramPlayer, command=command), program=True)
    if casting.player is None:
        return _first_installed_player(able_players)
    if casting.player not in PLAYERS:
        raise ConfigError(unknown_word_message("player", casting.player, PLAYERS))
    if casting.player not in able_players:
        raise ConfigError(
            f"{casting.player} can't play in {run_name}; {', '.join(able_players)} can"
        )
    player_name = _player_named(casting.player)
    if player_name is None:
        raise MissingExtraError(f"{casting.player} is not installed: {PIP_LINE}")
    return player_name


def _first_installed_player(able_players: tuple[str, ...]) -> Cast:
    missing_players: list[str] = []
    for player_name in able_players:
        player_cast = _player_named(player_name)
        if player_cast is None:
            missing_players.append(player_name)
        elif missing_players:
            remark = f"{', '.join(missing_players)} would play if installed: {PIP_LINE}"
            return msgspec.structs.replace(player_cast, remark=remark)
        else:
            return player_cast
    raise MissingExtraError(f"no client library that can play is installed: {PIP_LINE}")


def _player_named(name: str) -> Cast | None:
    """Make the player of a name; None if its library is not installed."""
    if name == "own":
        return Cast(make=OwnPlayer)
    try:
        with warnings.catch_warnings():
            # kafka-python reads its own schemas in a way that newer Pythons deprecate.
            warnings.simplefilter("ignore", DeprecationWarning)
            from txnsim_lab.scenario.players._kafka_python import KafkaPythonPlayer
    except ImportError:
        return None
    return Cast(make=KafkaPythonPlayer)


# Our own client as an application of a story


class OwnPlayer(ApplicationPlayer):
    """``txnsim.client`` as a player, in this process, over real connections."""

    name = "own client"

    def __init__(self, player_part: PlayerPart) -> None:
        environment = player_part.environment
        self._cluster = Cluster(
            player_part.bootstrap,
            settings=ClientSettings(client_id=player_part.client_id, security=player_part.security),
            clock=None if environment is None else environment.clock,
            tasks=None if environment is None else environment.tasks,
            tracer=None if environment is None else environment.tracer,
        )
        self._producer = Producer(
            self._cluster,
            transactional_id=player_part.transactional_id,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )
        self._metadata_future: asyncio.Future[RecordMetadata] | None = None

    async def begin(self) -> None:
        if not self._producer.is_initialized:
            await self._cluster.connect()
            await self._producer.init_transactions()
        self._producer.begin()

    async def send(self, value: str, partition: TopicPartition) -> None:
        self._metadata_future = self._producer.send(
            partition.topic, partition.partition, value.encode()
        )

    async def await_ack(self) -> int:
        """Wait until the last record is acknowledged; returns its offset."""
        assert self._metadata_future is not None
        return (await self._metadata_future).offset

    async def commit(self) -> None:
        await self._producer.commit()

    async def abort(self) -> None:
        await self._producer.abort()

    async def close(self) -> None:
        await self._producer.close()
        await self._cluster.close()


# Any other client as an application of a story: a program that does everything by itself and prints
# its events, one JSON object per line.
#
# It is called with bootstrap, transactional id, topic, partition and the record's timestamp in ms;
# it begins a transaction, sends one record (``late``), waits until that is acknowledged
# (``produced``) or given up (``produce-failed``), aborts (``aborted``), and leaves. ``client`` in a
# line is its name. Its exit status does not matter, and its standard error is passed on.

LINE_TIMEOUT_SECONDS: Final = 60
"""Long, since a JVM needs some time on a busy machine."""
END_TIMEOUT_SECONDS: Final = 10


class OutputLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a program's output."""

    event: str
    client: str = ""
    error: str = ""


def words(command: str) -> tuple[str, ...]:
    """Split a command line into words.

    Raises:
        ConfigError: There is no such program.
    """
    try:
        command_words = tuple(shlex.split(command))
    except ValueError as error:
        raise ConfigError(f"program {command!r}: {error}") from None
    if not command_words or shutil.which(command_words[0]) is None:
        raise ConfigError(f"program {command!r}: there is no such program to run")
    return command_words


class ProgramPlayer(ApplicationPlayer):
    """A child process as the player."""

    def __init__(self, part: PlayerPart, *, command: tuple[str, ...]) -> None:
        self.name = command[-1].rsplit("/", 1)[-1]
        self._part = part
        self._command = command
        self._process: asyncio.subprocess.Process | None = None

    async def begin(self) -> None:
        """Do nothing: a program starts, and does everything, with its first record."""

    async def send(self, _value: str, _partition: TopicPartition) -> None:
        """Start the program; it sends ``late`` as its record's value, not the given value."""
        assert self._process is None, "a program plays the whole part in one go"
        part = self._part
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            part.bootstrap,
            part.transactional_id,
            part.topic,
            str(part.partition),
            str(part.now_ms),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )

    async def await_ack(self) -> int:
        """Wait until the program reports the acknowledgement; returns -1, as it
        reports no offset.
        """
        await self._await_event("produced")
        return -1

    async def give_up(self) -> None:
        await self._await_event("produce-failed")

    async def commit(self) -> None:
        """Not possible: a program always aborts.

        Raises:
            ClientError: Always.
        """
        raise ClientError(f"{self.name} aborts, and can't commit")

    async def abort(self) -> None:
        await self._await_event("aborted")

    async def close(self) -> None:
        """Wait for the end of the process; kill it if it does not end."""
        process = self._process
        if process is None:
            return
        try:
            await asyncio.wait_for(process.communicate(), timeout=END_TIMEOUT_SECONDS)
        except TimeoutError:
            process.kill()
            await process.communicate()

    async def _await_event(self, event: str) -> None:
        """Read the program's lines up to an event; ``initialized`` may come before."""
        while True:
            output_line = await self._read_line(event)
            if output_line.client:
                self.name = output_line.client
            if output_line.event == event:
                return
            if output_line.event != "initialized":
                error_text = f": {output_line.error}" if output_line.error else ""
                raise ClientError(
                    f"{self.name} said {output_line.event!r}, not {event!r}{error_text}"
                )

    async def _read_line(self, awaited_event: str) -> OutputLine:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            line_bytes = await asyncio.wait_for(
                self._process.stdout.readline(), timeout=LINE_TIMEOUT_SECONDS
            )
        except TimeoutError:
            raise ClientError(
                f"{self.name} did not say {awaited_event!r} within {LINE_TIMEOUT_SECONDS} s"
            ) from None
        if not line_bytes:
            raise ClientError(f"{self.name} ended before it said {awaited_event!r}")
        try:
            return msgspec.json.decode(line_bytes, type=OutputLine)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ClientError(f"{self.name} said {line_bytes[:200]!r}: {error}") from None
