"""The token of the control port, as the environment sets it (``TXNSIM_TOKEN``): for the server that
wants it, and for commands that ask a server. Arguments would show it to anyone who lists processes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from txnsim.errors import ConfigError

VARIABLE: Final = "TXNSIM_TOKEN"
_TOKEN: Final = re.compile(r"[-A-Za-z0-9._~+/=]{16,256}")


def token_from(environment: Mapping[str, str]) -> str | None:
    """The token; None where none is set.

    Raises:
        ConfigError: It is too short, or no header can carry it. The message does not repeat it.
    """
    token = environment.get(VARIABLE) or None
    if token is not None and not _TOKEN.fullmatch(token):
        raise ConfigError(f"{VARIABLE}: expected 16 to 256 letters, digits and characters -._~+/=")
    return token
