"""What is posted to the control port: YAML that means more than it says, numbers without an end."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Final

from tests.attacks.target import Attack, Target

NESTED: Final = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdef", "bcdefg", strict=True)
)
TIMEOUT_S: Final = 120.0


def aliases(target: Target) -> int:
    """Aliases nested seven times, in 330 bytes of YAML."""
    return _post_yaml(target, NESTED)


def itself(target: Target) -> int:
    """A list that contains itself, and 900 brackets."""
    return _post_yaml(target, "a: &a [*a]\n") + _post_yaml(target, "a: " + "[" * 900)


def wide(target: Target) -> int:
    """As many values as YAML may have, five times."""
    return sum(_post_yaml(target, "a: [" + "x," * 19_000 + "]") for _ in range(5))


def digits(target: Target) -> int:
    """Numbers of 5,000 digits in paths and headers."""
    number = "9" * 5_000
    paths = (f"/api/v1/brokers/{number}", f"/api/v1/runs/1?wait_ms={number}")
    return sum(_ask(target, path, expected=(400, 404)) for path in paths)


def log_directory(target: Target) -> int:
    """A broker's log directory, ten times."""
    return sum(_ask(target, "/api/v1/brokers/1/log-dir", expected=(200,)) for _ in range(10))


def _post_yaml(target: Target, text: str) -> int:
    body = json.dumps({"yaml": text}).encode()
    return _ask(target, "/api/v1/runs", body=body, expected=(422,))


def _ask(target: Target, path: str, *, expected: tuple[int, ...], body: bytes | None = None) -> int:
    request = urllib.request.Request(target.http + path, data=body)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            answer.read()
            status = answer.status
    except urllib.error.HTTPError as refused:
        refused.read()
        status = refused.code
    if status not in expected:
        raise AssertionError(f"{path[:80]}: {status}")
    return len(path) + len(body or b"")


ATTACKS: Final = (
    Attack("yaml-aliases", aliases),
    Attack("yaml-itself", itself),
    Attack("yaml-wide", wide),
    Attack("numbers-of-5000-digits", digits),
    Attack("log-directory", log_directory),
)
