"""The decisions that a plug-in may replace, by name: functions of the cores, and of shells where
those decide.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import msgspec

from txnsim.errors import ConfigError
from txnsim.text import unknown_word_message


class DecisionPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that has a name."""

    name: str
    module: str
    function: str
    """The function in that module; ``Class.method`` of a method."""
    decides: str
    asked_if: str = ""
    """The function of that module which says whether requests ask for this decision at all."""

    @property
    def owner(self) -> ModuleType | type[Any]:
        """The module or class that has the function."""
        module = importlib.import_module(self.module)
        class_name, _, _ = self.function.rpartition(".")
        if not class_name:
            return module
        owner: type[Any] = getattr(module, class_name)
        return owner

    @property
    def attribute(self) -> str:
        """The function's name at its owner."""
        return self.function.rpartition(".")[2]

    @property
    def current_function(self) -> Callable[..., Any]:
        """The function that decides now."""
        function: Callable[..., Any] = getattr(self.owner, self.attribute)
        return function


_MACHINE: Final = "txnsim.txn.machine"
_LEADER: Final = "txnsim.log.leader_append"


def _decision_point(
    name: str, module: str, function: str, decides: str, *, asked_if: str = ""
) -> tuple[str, DecisionPoint]:
    return name, DecisionPoint(
        name=name, module=module, function=function, decides=decides, asked_if=asked_if
    )


DECISIONS: Final[dict[str, DecisionPoint]] = dict(
    (
        # The transaction coordinator
        _decision_point(
            "coordinator.may-answer",
            "txnsim.coordinators.txn.service",
            "may_answer",
            "whether a coordinator answers for a partition that it has loaded (KAFKA-21181)",
            asked_if="must_ask_who_leads",
        ),
        _decision_point(
            "coordinator.load",
            "txnsim.broker.coordinator_host",
            "batches_to_load",
            "what a coordinator reads of its log when its broker becomes the leader",
        ),
        _decision_point(
            "txn.init-check",
            "txnsim.txn.machine_init",
            "check_init_producer_id",
            "what is wrong with an InitProducerId in any state",
        ),
        _decision_point(
            "txn.init",
            "txnsim.txn.machine_init",
            "decide_init_producer_id",
            "what an InitProducerId gets: an identity, or an end of the open transaction first",
        ),
        _decision_point(
            "txn.add",
            _MACHINE,
            "decide_add_partitions",
            "whether partitions come into the transaction, and whether one begins with them",
        ),
        _decision_point(
            "txn.verify",
            _MACHINE,
            "decide_verify",
            "the answer to a leader that asks whether a partition is in the transaction (KIP-890)",
        ),
        _decision_point(
            "txn.end",
            "txnsim.txn.machine_end",
            "decide_end_txn",
            "what a commit or an abort does, and which identity its producer has afterwards",
        ),
        _decision_point(
            "txn.fence",
            "txnsim.txn.machine_end",
            "decide_fence",
            "how a transaction is aborted against its producer's will",
        ),
        _decision_point(
            "txn.fence-epoch",
            "txnsim.txn.transitions",
            "fence_epoch_of",
            "which epoch fences the producer of an aborted transaction",
        ),
        _decision_point(
            "txn.timeout",
            _MACHINE,
            "is_timed_out",
            "whether a transaction has timed out",
        ),
        _decision_point(
            "txn.expiry",
            _MACHINE,
            "decide_expiry",
            "whether an idle transactional id is forgotten",
        ),
        _decision_point(
            "marker.debt",
            "txnsim.txn.markers",
            "debt_of",
            "what the markers of a prepared transaction carry: epochs and version",
        ),
        _decision_point(
            "marker.outcome",
            "txnsim.txn.markers",
            "marker_outcome",
            "what follows from the answers to a marker: it is written, sent again, or given up",
        ),
        # The leader of a partition
        _decision_point(
            "leader.error",
            "txnsim.broker.verification",
            "_leader_error",
            "which error of the coordinator (NOT_COORDINATOR, …) a leader passes on to the client",
        ),
        _decision_point(
            "log.guard",
            _LEADER,
            "start_verification",
            "whether the coordinator is asked before a batch, and the guard for the answer",
        ),
        _decision_point(
            "log.gate",
            _LEADER,
            "check_gate",
            "whether a transactional batch may come in at all: its epoch, and that it is verified",
        ),
        _decision_point(
            "log.may-join",
            _LEADER,
            "may_join",
            "whether a batch belongs to the transaction that is open on its partition",
        ),
        _decision_point(
            "log.batch",
            _LEADER,
            "check_data",
            "whether a batch continues what its producer has written: epoch and sequence",
        ),
        _decision_point(
            "log.marker",
            _LEADER,
            "check_marker",
            "whether a marker may end the producer's transaction: its epochs (KIP-1228)",
        ),
        _decision_point(
            "log.marker-ends-guard",
            "txnsim.log.verification",
            "VerificationEntries.on_marker",
            "whether a marker ends a verification that is under way (KAFKA-18575)",
        ),
    )
)
"""Name -> decision, in the order of docs/referee.md."""


def decision_named(name: str) -> DecisionPoint:
    """The decision of a name.

    Raises:
        ConfigError: There is none.
    """
    decision_point = DECISIONS.get(name)
    if decision_point is None:
        raise ConfigError(unknown_word_message("decision", name, DECISIONS))
    return decision_point
