"""Every attack, by name."""

from __future__ import annotations

from typing import Final

from tests.attacks import fairness, floods, pipelines, topics
from tests.attacks.target import Attack

_MODULES: Final = (topics, pipelines, fairness, floods)

ATTACKS: Final[dict[str, Attack]] = {
    attack.name: attack for module in _MODULES for attack in module.ATTACKS
}
