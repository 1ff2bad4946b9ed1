"""Histories through the control port: an onlooker for tests in other languages, and the judges.

A test notes what its clients saw, as observations of ``txnsim_lab.check.observations``. What a
client library does not tell (open transactions, what coordinators list, the last stable offset) an
onlooker reads over the wire, as any client could. The judges know nothing else.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from starlette.requests import Request

from txnsim.client.connection import ClientSettings
from txnsim.errors import ClientError
from txnsim.http.operation import PREFIX, Operation
from txnsim.http.replies import Body, RefusedError
from txnsim.http.wire_noun import WireNoun
from txnsim.http.work_thread import WorkThread
from txnsim.on_demand_imports import OnDemand
from txnsim_lab.check.history import History, HistoryError, require_answers
from txnsim_lab.check.observations import Seen

if TYPE_CHECKING:
    from txnsim_lab.check import judge as judges
    from txnsim_lab.scenario import outside_view, recorder
else:
    judges = OnDemand("txnsim_lab.check.judge")
    outside_view = OnDemand("txnsim_lab.scenario.outside_view")
    recorder = OnDemand("txnsim_lab.scenario.recorder")

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
LOOK_TIMEOUT_MS: Final = 10_000
JUDGE_S_MAX: Final = 5.0
"""How long the judges may take; they run beside the event loop."""


class Look(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request to look at a partition."""

    topic: str
    partition: Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]
    offset: Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)] = 0
    """The offset from which readers read."""


class AnomalyView(msgspec.Struct, frozen=True, kw_only=True):
    """An anomaly that the judges found."""

    kind: str
    because: str
    evidence: tuple[int, ...]
    """Indexes of the observations that prove it."""


class VerdictView(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a history."""

    healthy: bool
    kinds: tuple[str, ...]
    anomalies: tuple[AnomalyView, ...]
    unread: tuple[str, ...]
    """Partitions with an acknowledged record of which no reader was given any: not judged."""


class JudgingRoutes(WireNoun):
    """The routes for the onlooker and the judges."""

    @cached_property
    def _judge_thread(self) -> WorkThread:
        return WorkThread("txnsim-judge")

    @Operation("post", f"{PREFIX}/looks", refusals=("404", "422", "503"))
    async def look(self, _request: Request, body: Body[Look]) -> list[Seen]:
        """Look at a partition as an onlooker does, over the wire: its open transactions, every
        transactional id, the open transactions again, and what readers get from an offset on.
        """
        asked_look = await body.read()
        partition = self._place_of(asked_look.topic, asked_look.partition)
        look_recorder = recorder.Recorder(self._environment.clock)
        client_settings = ClientSettings(
            client_id=outside_view.ONLOOKER_NAME, api_timeout_ms=LOOK_TIMEOUT_MS
        )
        try:
            async with self._outside(client_settings) as onlooker_cluster:
                await outside_view.observe_partition(
                    onlooker_cluster, partition, look_recorder, offset=asked_look.offset
                )
        except ClientError as error:
            raise RefusedError(
                503,
                f"the onlooker was not answered: {error}; see GET {PREFIX}/brokers, and whether a "
                "fault without client_id strikes it",
            ) from error
        return list(look_recorder.history)

    @Operation("post", f"{PREFIX}/verdicts", refusals=("413", "422"))
    async def judge(self, _request: Request, body: Body[list[Seen]]) -> VerdictView:
        """Judge a history: an array of observations, in order."""
        history = History(await body.read())
        try:
            require_answers(history)
            verdict = await self._judge_thread.do_within(JUDGE_S_MAX, lambda: judges.judge(history))
        except HistoryError as error:
            raise RefusedError(422, str(error)) from None
        except TimeoutError:
            raise RefusedError(
                422,
                f"judging takes more than {JUDGE_S_MAX:g} s; write the history to a file, one "
                "observation a line, and run `txnsim check FILE`",
            ) from None
        return VerdictView(
            healthy=verdict.healthy,
            kinds=tuple(kind.value for kind in verdict.kinds),
            anomalies=tuple(
                AnomalyView(
                    kind=anomaly.kind.value, because=anomaly.because, evidence=anomaly.evidence
                )
                for anomaly in verdict.anomalies
            ),
            unread=tuple(map(str, history.unread_partitions())),
        )
