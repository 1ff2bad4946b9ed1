"""The option ``--engine`` of commands that play very many seeds: processes of this machine, or an
engine of an extension (``txnsim_lab.campaigns.CampaignEngine``).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from txnsim.errors import ConfigError
from txnsim.on_demand_imports import offered

if TYPE_CHECKING:
    from txnsim_lab.campaigns import CampaignEngine

LOCAL_ENGINE: Final = "local"


def add_engine_options(parser: argparse._ActionsContainer, *, what: str = "") -> None:
    """Add ``--engine``, and the options of engines.

    Args:
        parser: A parser, or a group of its options.
        what: What is played there, for the help; all unless given.
    """
    engines = {engine_module.NAME: engine_module for engine_module in offered("campaign_engine")}
    parser.add_argument(
        "--engine",
        choices=(LOCAL_ENGINE, *engines),
        default=LOCAL_ENGINE,
        help=f"where{what} (default local)",
    )
    for engine_module in engines.values():
        engine_module.add_arguments(parser)


def engine_starter(
    args: argparse.Namespace, exit_stack: ExitStack
) -> Callable[[], CampaignEngine] | None:
    """A function that starts the engine that ``--engine`` names, until the stack is closed; None
    for this machine. The function raises ``MissingExtraError`` if the engine lacks a library.

    Raises:
        ConfigError: ``--master`` without ``--engine spark``.
    """
    if args.engine == LOCAL_ENGINE:
        if getattr(args, "master", None) is not None:
            raise ConfigError("--master needs --engine spark")
        return None
    engine_module = next(
        engine_module
        for engine_module in offered("campaign_engine")
        if args.engine == engine_module.NAME
    )

    def start() -> CampaignEngine:
        engine: CampaignEngine = exit_stack.enter_context(engine_module.engine(args))
        return engine

    return start
