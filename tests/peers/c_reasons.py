"""Why tests of librdkafka do not pass against us, or are skipped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TRANSACTIONS_REASONS: Final[Mapping[str, str]] = {}

CLIENT_REASONS: Final[Mapping[str, str]] = {
    "0107_topic_recreate": "It is for a cluster that does not create topics by itself (the tests' "
    "scenario `noautocreate`), and is skipped on others.",
}
