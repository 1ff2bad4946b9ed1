"""What commands share that run until a signal arrives: ``txnsim serve``, ``txnsim proxy``."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from txnsim.cli import _control_token
from txnsim.cli import _ready_file as ready_file
from txnsim.cli.event_log import LEVEL_DEFAULT, LEVELS, LogFormat, set_up_logs, tell_left_out
from txnsim.cli.output import TERMINAL
from txnsim.cli.parsing import new_file
from txnsim.errors import ConfigError
from txnsim.runtime.wall_clock import monotonic_ms
from txnsim.text import is_host

END_MS_MAX: Final = 4_500
"""Time in ms after which the process ends, so that it is gone within five seconds of a signal."""
LOOK_S: Final = 0.1


class LongRunning:
    """One run of such a command, from its arguments to its end."""

    @staticmethod
    def add_log_arguments(parser: argparse._ActionsContainer) -> None:
        """Declare the options of the log."""
        parser.add_argument(
            "--log-level",
            choices=LEVELS,
            default=LEVEL_DEFAULT,
            help="least level of what is logged to standard error (default info); debug logs each "
            "request and connection",
        )
        parser.add_argument(
            "--log-format",
            choices=tuple(LogFormat),
            default=LogFormat.CONSOLE,
            help="how lines of the log look (default console)",
        )

    @staticmethod
    def add_script_arguments(parser: argparse._ActionsContainer) -> None:
        """Declare the options for scripts and tests that start the command."""
        parser.add_argument(
            "--ready-file",
            type=new_file,
            metavar="FILE",
            help="write bootstrap, http, token and pid there as JSON once every listener accepts",
        )
        parser.add_argument("--json", action="store_true", help="say what was started as JSON")
        parser.add_argument(
            "--until-eof",
            action="store_true",
            help="end when standard input ends: a test that starts it over a pipe takes it along, "
            "however the test ends",
        )

    def __init__(self, args: argparse.Namespace) -> None:
        """Set up logs, check hosts and that the ready file can be created, and read the token of
        the control port.

        Raises:
            ConfigError: A host is none, the ready file can't be created, or the token is invalid.
        """
        _check_hosts(args)
        set_up_logs(level=args.log_level, log_format=LogFormat(args.log_format))
        self._ready_file: Path | None = args.ready_file
        if self._ready_file is not None:
            ready_file.check(self._ready_file)
            ready_file.remove_old(self._ready_file)
        self.token = _control_token.token_from(os.environ)
        """The control port's token (``TXNSIM_TOKEN``); None if it is not set."""

    @staticmethod
    def stop_of(args: argparse.Namespace) -> asyncio.Event:
        """An event that is set by SIGINT or SIGTERM, or at the end of standard input if asked for.
        From now on the log regularly reports what it has suppressed.
        """
        stop_event = asyncio.Event()
        loop = asyncio.get_running_loop()
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(signal_number, _end_process, loop, stop_event)
        if args.until_eof and not sys.stdin.isatty():
            # Ctrl-C in a terminal reaches us and the test that has started us. The test is to ask
            # what happened first; its end is ours.
            loop.add_signal_handler(signal.SIGINT, lambda: None)
        if args.until_eof:
            _stop_at_eof(loop, stop_event)
        _tell_left_out_for_ever(loop)
        return stop_event

    @staticmethod
    def say_ready(args: argparse.Namespace, facts: Mapping[str, Any]) -> None:
        """Write the ready file if one was asked for.

        Args:
            args: The command's arguments.
            facts: The facts about what was started; with a token only the owner may read the file.

        Raises:
            ConfigError: The file can't be written.
        """
        if args.ready_file is not None:
            encoded_facts = msgspec.json.encode(facts)
            ready_file.write(args.ready_file, encoded_facts, is_secret="token" in facts)

    def shown_token(self, token: str) -> str:
        """The token as text to print; ``TXNSIM_TOKEN`` is only named, because the user has set
        it.
        """
        return f"that of {_control_token.VARIABLE}" if token == self.token else token

    def say_ended(self) -> None:
        """Remove the ready file, because the server is about to stop."""
        if self._ready_file is not None:
            ready_file.remove_ours(self._ready_file)

    @staticmethod
    def end() -> None:
        """Log how many lines were suppressed, once everything has stopped."""
        tell_left_out(tells_at_once=True)


def _check_hosts(args: argparse.Namespace) -> None:
    for name in ("host", "advertised_host", "http_host"):
        host = getattr(args, name, None)
        if host and not is_host(host):
            raise ConfigError(
                f"--{name.replace('_', '-')} {host!r}: expected the name or the address of a host"
            )


def _end_process(loop: asyncio.AbstractEventLoop, stop_event: asyncio.Event) -> None:
    """End the process in any case: tasks that take too long are not waited for."""
    stop_event.set()
    threading.Thread(target=_end_after_deadline, args=(loop,), daemon=True).start()


def _end_after_deadline(loop: asyncio.AbstractEventLoop) -> None:
    deadline_ms = monotonic_ms() + END_MS_MAX
    while monotonic_ms() < deadline_ms:
        if loop.is_closed():
            return
        threading.Event().wait(LOOK_S)
    TERMINAL.complain(f"what runs has not ended within {END_MS_MAX} ms: it is cut off")
    os._exit(1)


def _tell_left_out_for_ever(loop: asyncio.AbstractEventLoop) -> None:
    tell_left_out()
    loop.call_later(1, _tell_left_out_for_ever, loop)


def _stop_at_eof(loop: asyncio.AbstractEventLoop, stop_event: asyncio.Event) -> None:
    """Set ``stop_event`` when standard input ends; its contents are ignored."""

    def read() -> None:
        if not os.read(sys.stdin.fileno(), 65_536):
            loop.remove_reader(sys.stdin.fileno())
            stop_event.set()

    try:
        loop.add_reader(sys.stdin.fileno(), read)
    except PermissionError:
        # a file or /dev/null, which can't be waited for: it ends as soon as it is read
        stop_event.set()
