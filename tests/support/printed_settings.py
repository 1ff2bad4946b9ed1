"""The client settings that ``serve --security demo`` prints, as a user would copy them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.support.txnsim_server import TxnsimServer

TOPIC = "printed"
_LABELLED = 4
_CONTINUED = 18
_LAST = "stop with"


@contextlib.contextmanager
def printed_settings() -> Iterator[dict[str, str]]:
    """Name of a client library -> the settings printed for it."""
    with TxnsimServer(
        brokers=2, arguments=("--security", "demo", "--topic", f"{TOPIC}:1")
    ) as server:
        yield _by_label(server.wait_for_output(_LAST).splitlines())


def _by_label(lines: list[str]) -> dict[str, str]:
    start = next(
        index for index, line in enumerate(lines) if line.strip().startswith("settings for")
    )
    settings_by_label: dict[str, str] = {}
    label = ""
    for line in lines[start + 1 :]:
        if not line.startswith(" " * _LABELLED):
            break
        label = line[_LABELLED:_CONTINUED].strip() or label
        settings_by_label[label] = f"{settings_by_label.get(label, '')}{line[_CONTINUED:]}\n"
    return settings_by_label
