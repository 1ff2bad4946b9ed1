"""``txnsim logs``: writes and reads Kafka's log directories. This module lists the actions. An
action is a module with ``DESCRIPTION``, ``add_arguments(parser)`` and ``run(args) -> int``; it
imports slow modules (all of ``txnsim_spark``) in ``run``. This module prints its errors about wrong
arguments and missing software.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from types import ModuleType
from typing import Final

from txnsim.cli.output import TERMINAL
from txnsim.cli.parsing import MISUSE_STATUS
from txnsim_spark.cli.logs import _decisions as logs_decisions
from txnsim_spark.cli.logs import _describe as logs_describe
from txnsim_spark.cli.logs import _dumped as logs_dumped
from txnsim_spark.cli.logs import _find_hanging as logs_find_hanging
from txnsim_spark.cli.logs import _sql as logs_sql
from txnsim_spark.cli.logs import _stores as stores
from txnsim_spark.cli.logs import _timeline as logs_timeline
from txnsim_spark.cli.logs import _verify as logs_verify
from txnsim_spark.cli.logs import _waiting_groups as logs_waiting
from txnsim_spark.cli.logs import _write as logs_write

ACTIONS: Final[dict[str, tuple[ModuleType, str]]] = {
    "write": (
        logs_write,
        "write the log directories of a running simulator, for kafka-dump-log or a broker",
    ),
    "describe": (
        logs_describe,
        "what lies in log directories: offsets, open transactions, torn tails",
    ),
    "find-hanging": (
        logs_find_hanging,
        "transactions that hang, in the directories of stopped brokers, with what to do",
    ),
    "decisions": (
        logs_decisions,
        "were we hit? every decision of the coordinators against every marker",
    ),
    "verify": (
        logs_verify,
        "whether log directories are sound: CRCs, sequences, markers, snapshots, replicas",
    ),
    "timeline": (
        logs_timeline,
        "the life of a transactional id: what its coordinator wrote, what lies in the partitions",
    ),
    "waiting": (logs_waiting, "which consumer groups wait, behind whose transaction, since when"),
    "dumped": (logs_dumped, "the same from the text of kafka-dump-log, as people post it"),
    "sql": (logs_sql, "a question of your own in SQL: whose producer it was, what was lost"),
}
"""Name -> module, and its line of help."""
INCOMPLETE_STATUS: Final = 4
"""Exit status if an unreadable file makes the answer incomplete."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for action_name, (action_module, help_line) in ACTIONS.items():
        action_module.add_arguments(
            actions.add_parser(action_name, help=help_line, description=action_module.DESCRIPTION)
        )


def run(args: argparse.Namespace) -> int:
    """Run the action; returns the exit status."""
    from txnsim.errors import BadInputError, MissingExtraError
    from txnsim_spark.file_faults import LogFileError

    with ExitStack() as stack:
        try:
            stores.with_local_copies(args, stack)
            _require_topics(args)
            status: int = ACTIONS[args.action][0].run(args)
        except BrokenPipeError:
            raise  # the reader of what we print has gone
        except LogFileError as error:
            TERMINAL.complain(error)
            status = INCOMPLETE_STATUS
        except (BadInputError, MissingExtraError, OSError) as error:
            TERMINAL.complain(error)
            status = MISUSE_STATUS
    return status


def _require_topics(args: argparse.Namespace) -> None:
    """Refuse a topic without replicas: ``verify`` would call its zero replicas sound.

    Raises:
        BadInputError: No directory has a replica of the topic.
    """
    # ``write`` asks a running simulator; its topics are checked there.
    if args.action == "write" or not getattr(args, "topic", None):
        return
    from txnsim.errors import BadInputError
    from txnsim.text import unknown_word_message
    from txnsim_spark.scan.segments import replicas_in

    topics = sorted({replica.topic for replica in replicas_in(args.directory)})
    for topic in args.topic:
        if topics and topic not in topics:
            raise BadInputError(f"--topic: {unknown_word_message('replica of', topic, topics)}")
