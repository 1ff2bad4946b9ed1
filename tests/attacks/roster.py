"""Every attack, by name."""

from __future__ import annotations

from typing import Final

from tests.attacks import pipelines, topics
from tests.attacks.target import Attack

_MODULES: Final = (topics, pipelines)

ATTACKS: Final[dict[str, Attack]] = {
    attack.name: attack for module in _MODULES for attack in module.ATTACKS
}
