"""The token of the control port, from the environment (``TXNSIM_TOKEN``): for the server, and for
commands that send requests to it. An argument would show it to anyone who lists processes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from txnsim.errors import ConfigError

VARIABLE: Final = "TXNSIM_TOKEN"
_TOKEN: Final = re.compile(r"[-A-Za-z0-9._~+/=]{16,256}")


def token_from(process_variables: Mapping[str, str]) -> str | None:
    """The token; None if it is not set.

    Raises:
        ConfigError: It is too short, or can't be sent in a header. The message does not contain it.
    """
    token = process_variables.get(VARIABLE) or None
    if token is not None and not _TOKEN.fullmatch(token):
        raise ConfigError(f"{VARIABLE}: expected 16 to 256 letters, digits and characters -._~+/=")
    return token
