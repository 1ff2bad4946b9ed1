"""Every attack, by name."""

from __future__ import annotations

from typing import Final

from tests.attacks import (
    answers,
    batches,
    churn,
    configs,
    control_port,
    fairness,
    fault_rules,
    floods,
    groups,
    half_open,
    memory,
    open_transactions,
    patterns,
    pipelines,
    privileges,
    share_groups,
    shares,
    small_steps,
    streams,
    telemetry,
    topics,
    unknown_clients,
    walks,
)
from tests.attacks.target import Attack

_MODULES: Final = (
    topics,
    pipelines,
    fairness,
    floods,
    groups,
    batches,
    control_port,
    unknown_clients,
    patterns,
    answers,
    walks,
    memory,
    privileges,
    share_groups,
    shares,
    small_steps,
    streams,
    telemetry,
    half_open,
    churn,
    open_transactions,
    configs,
    fault_rules,
)

ATTACKS: Final[dict[str, Attack]] = {
    attack.name: attack for module in _MODULES for attack in module.ATTACKS
}
