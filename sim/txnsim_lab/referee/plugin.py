"""Plug-ins: a Python file with functions that replace decisions of the cores.

A plug-in is the user's own code, and runs as such. What it raises is kept (``PluginFailures``), and
what a broker raises because of its answer: clients only get UNKNOWN_SERVER_ERROR, as for any bug of
a broker.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final, Self, TypeVar

import msgspec

from txnsim.errors import ConfigError
from txnsim.loggers import watched_errors
from txnsim_lab.referee._decisions import DecisionPoint, decision_named

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_MARK: Final = "txnsim_replaces"
_PACKAGES: Final = ("txnsim", "txnsim_lab", "txnsim_spark")
_LINES_MAX: Final = 20
"""So many different failures of a plug-in are kept."""


def replaces(name: str) -> Callable[[FunctionT], FunctionT]:
    """Declare that a function of a plug-in replaces a decision.

    It is called with the function that decides otherwise, ``original``, and then with the facts of
    the decision as that function is.

    Args:
        name: The decision's name in docs/referee.md.

    Raises:
        ConfigError: There is no such decision.
    """
    decision_named(name)

    def mark(function: FunctionT) -> FunctionT:
        setattr(function, _MARK, name)
        return function

    return mark


class PluginEndError(Exception):
    """A plug-in wanted to end the process, as ``sys.exit()`` does."""


class Plugin(msgspec.Struct, frozen=True):
    """The file of a plug-in, with the text that it had when the command began."""

    path: str
    source: str

    def replacements(self) -> dict[str, Callable[..., Any]]:
        """Run the file; returns its functions by the names of the decisions that they replace.

        Raises:
            ConfigError: It can't be run, replaces nothing, or a function takes other facts than the
                decision has.
        """
        return _load_replacements(self.path, self.source)


@functools.lru_cache(8)
def _load_replacements(path: str, source: str) -> dict[str, Callable[..., Any]]:
    namespace: dict[str, Any] = {"__name__": "txnsim_plugin", "__file__": path}
    try:
        exec(compile(source, path, "exec"), namespace)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - any error of the user's file, sys.exit() too
        raise ConfigError(_failure_text(error, path)) from None
    replacements: dict[str, Callable[..., Any]] = {}
    for function in namespace.values():
        name = getattr(function, _MARK, None)
        if not isinstance(name, str):
            continue
        if name in replacements:
            raise ConfigError(f"{path}: two functions replace {name}")
        _check_parameters(function, decision_named(name), path)
        replacements[name] = function
    if not replacements:
        raise ConfigError(f'{path}: replaces nothing: mark a function with @replaces("txn.end")')
    return replacements


def _check_parameters(function: Callable[..., Any], decision: DecisionPoint, path: str) -> None:
    """Refuse a function that can't be called with the facts of its decision."""
    parameters = inspect.signature(inspect.unwrap(decision.current_function)).parameters.values()
    names_by_position = [
        parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY
    ]
    parameter_by_name = {
        parameter.name: parameter
        for parameter in parameters
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    try:
        inspect.signature(function).bind("original", *names_by_position, **parameter_by_name)
    except TypeError as error:
        parameter_text = ", ".join(
            (
                "original",
                *names_by_position,
                *(("*", *parameter_by_name) if parameter_by_name else ()),
            )
        )
        raise ConfigError(
            f"{path}: {function.__name__} replaces {decision.name}, which is called as"
            f" ({parameter_text}): {error}"
        ) from None


class PluginFailures:
    """What plug-ins have raised, and brokers because of them, in a file that all processes of a
    search share.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile("a+b", buffering=0)  # noqa: SIM115 - closed at the exit
        self._last_failure_texts: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._last_failure_texts = self.texts()
        self._file.close()

    def note(self, failure_text: str) -> None:
        """Keep the text of a failure; a repeated text is kept once."""
        if failure_text not in (texts := self.texts()) and len(texts) < _LINES_MAX:
            os.write(self._file.fileno(), failure_text.encode() + b"\n")

    def texts(self) -> tuple[str, ...]:
        """The kept texts, also after the exit."""
        if self._file.closed:
            return self._last_failure_texts
        byte_count = os.fstat(self._file.fileno()).st_size
        content = os.pread(self._file.fileno(), byte_count, 0)
        return tuple(dict.fromkeys(content.decode(errors="replace").splitlines()))


@contextmanager
def in_place(
    replacement_by_decision: Mapping[str, Callable[..., Any]], note_failure: Callable[[str], object]
) -> Iterator[None]:
    """Let functions decide in the place of the cores' own, wherever a module has bound those.

    Args:
        replacement_by_decision: Name of a decision -> the function.
        note_failure: Called with a sentence when one of them raises an exception, or a broker does
            that can't go on with what it has answered.
    """
    with ExitStack() as exit_stack:
        if replacement_by_decision:
            plugin_paths = {
                replacing_function.__code__.co_filename
                for replacing_function in replacement_by_decision.values()
            }
            exit_stack.enter_context(
                watched_errors(partial(_note_broker_error, plugin_paths, note_failure))
            )
        for name, replacing_function in replacement_by_decision.items():
            decision = decision_named(name)
            original_function = decision.current_function
            deciding_function = _make_deciding(
                decision, original_function, replacing_function, note_failure
            )
            exit_stack.callback(_rebind, decision, deciding_function, original_function)
            _rebind(decision, original_function, deciding_function)
            if decision.asked_if:
                exit_stack.enter_context(_asking_always(decision))
        yield


def _note_broker_error(
    plugin_paths: Collection[str], note_failure: Callable[[str], object], error: BaseException
) -> None:
    """Note an error that a broker raised itself; one of a plug-in is noted where it arose."""
    traceback_frames = traceback.extract_tb(error.__traceback__)
    if any(frame.filename in plugin_paths for frame in traceback_frames):
        return
    place_phrase = (
        f" ({_module_path(traceback_frames[-1].filename)}:{traceback_frames[-1].lineno})"
        if traceback_frames
        else ""
    )
    error_text = " ".join(f"{type(error).__name__}: {error}".split())
    note_failure(f"a broker can't go on with an answer of the plug-in: {error_text}{place_phrase}")


def _module_path(file_name: str) -> str:
    """The path of a module from its package on."""
    _, separator, path_in_package = file_name.rpartition(f"{os.sep}txnsim{os.sep}")
    return f"txnsim/{path_in_package}" if separator else file_name


@contextmanager
def _asking_always(decision: DecisionPoint) -> Iterator[None]:
    module = importlib.import_module(decision.module)
    original_function = getattr(module, decision.asked_if)
    setattr(module, decision.asked_if, lambda _release_rules: True)
    try:
        yield
    finally:
        setattr(module, decision.asked_if, original_function)


def _make_deciding(
    decision: DecisionPoint,
    original_function: Callable[..., Any],
    replacing_function: Callable[..., Any],
    note_failure: Callable[[str], object],
) -> Callable[..., Any]:
    path = replacing_function.__code__.co_filename

    @functools.wraps(original_function)
    def decide(*facts: Any, **named_facts: Any) -> Any:
        try:
            return replacing_function(original_function, *facts, **named_facts)
        except KeyboardInterrupt:
            raise  # no error of the plug-in: it is stopped, or its processor time is used up
        except BaseException as error:
            note_failure(f"{decision.name}: {_failure_text(error, path)}")
            if isinstance(error, Exception):
                raise
            # Of sys.exit(): a broker survives it as any bug, and the run has a result.
            raise PluginEndError(f"{decision.name}: {_failure_text(error, path)}") from error

    return decide


def _rebind(
    decision: DecisionPoint,
    function_to_replace: Callable[..., Any],
    new_function: Callable[..., Any],
) -> None:
    """Replace a function where it is bound: in its class, or in each module that imports it."""
    owner = decision.owner
    if isinstance(owner, type):
        setattr(owner, decision.attribute, new_function)
        return
    for module_name, module in tuple(sys.modules.items()):
        if module_name.partition(".")[0] not in _PACKAGES:
            continue
        for name, value in tuple(vars(module).items()):
            if value is function_to_replace:
                setattr(module, name, new_function)


def _failure_text(error: BaseException, path: str) -> str:
    """An error in one line, with the line of the plug-in where it arose."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path
    ]
    line = frames[-1].lineno if frames else getattr(error, "lineno", None)
    line_text = "" if line is None else f":{line}"
    summary = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{path}{line_text}: {summary}"
