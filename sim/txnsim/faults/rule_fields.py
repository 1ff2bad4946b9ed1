"""The fields of a fault rule: what can be declared. ``plan`` says what they mean for a crossing."""

from __future__ import annotations

import msgspec

from txnsim.faults.actions import CrossingAction
from txnsim.faults.cluster_actions import ClusterAction
from txnsim.faults.points import FaultPoint

Action = CrossingAction | ClusterAction


class RuleFields(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What a declared fault says: where, when, and what is done."""

    id: str
    """Name of the rule, unique among the armed ones."""
    point: FaultPoint
    action: Action
    then: CrossingAction | None = None
    """What happens to the struck crossing once an action on the cluster is done; None: it passes.
    """

    # Whose request
    api: str | int | None = None
    """Kafka's name of the API or its key."""
    broker: int | None = None
    """The request's target, at response points too; inside a broker that broker."""
    source: str | None = None
    """``client/<client id>`` or ``broker/<id>``."""
    client_id: str | None = None
    """Short for ``source: client/<client id>``."""
    role: str | None = None
    """``leader`` or ``follower``, at ``log.append``."""
    kind: str | None = None
    """What is appended, indexed or scanned, at points that know kinds (``meanings``)."""

    # About whom
    transactional_id: str | None = None
    producer_id: int | None = None
    topic: str | None = None
    partition: int | None = None
    committed: bool | None = None
    """Result carried by EndTxn or by a marker."""

    # Which of the crossings that match, counted from 1 since the rule was armed
    nth: int = 1
    """The first one that is struck."""
    limit: int | None = None
    """How many are struck from there on; None: all."""
    occurrences: tuple[int, ...] = ()
    """If given, exactly these are struck; ``nth`` and ``limit`` are not used."""
    probability: float = 1.0
    """How likely each of those is struck, drawn from the run's seed (stream ``fault.<id>``)."""
    after: str | None = None
    """Id of a rule: before that one has struck, nothing matches."""
    until: str | None = None
    """Id of a rule: once that one has struck, nothing matches any more."""
