"""An application that uses a client library as programs do; a player (``players``) runs the
library.
"""

from __future__ import annotations

from collections.abc import Callable

from txnsim.errors import ClientError, ConfigError, InvariantViolation
from txnsim_lab.scenario.actors.base import Surroundings
from txnsim_lab.scenario.call_results import GIVEN_UP, CallResult, failure
from txnsim_lab.scenario.players._base import ApplicationPlayer
from txnsim_lab.scenario.recorder import SentBatch
from txnsim_lab.scenario.steps_model import Call, required


class ApplicationActor:
    """An application with one transactional producer."""

    def __init__(
        self,
        name: str,
        transactional_id: str,
        player: ApplicationPlayer,
        surroundings: Surroundings,
    ) -> None:
        self.name = name
        self.player = player
        self._transactional_id = transactional_id
        self._surroundings = surroundings
        self._recorder = surroundings.recorder
        self._transaction: str | None = None
        self._begun_count = 0
        self._sent: list[SentBatch] = []
        """Records neither acknowledged nor given up."""
        self._has_sent = False

    async def call(
        self, call: Call, *, expected_code: str, on_sent: Callable[[], object]
    ) -> CallResult:
        del expected_code  # which errors are retried is the library's affair
        on_sent()
        try:
            return await self._call(call)
        except ClientError as error:
            answer = failure(error)
            if call.do in ("await-ack", "give-up"):
                self._note_writes(answer)
            elif call.do in ("commit", "abort"):
                self._note_end(answer, is_commit=call.do == "commit")
            return answer

    async def _call(self, call: Call) -> CallResult:
        player = self.player
        match call.do:
            case "begin":
                await player.begin()
                self._begun_count += 1
                self._transaction = call.transaction or f"{self.name}.T{self._begun_count}"
                self._recorder.note_begin(self.name, self._transactional_id, self._transaction)
            case "send":
                self._has_sent = True
                partition = required(call.partition)
                await player.send(required(call.records[0]), partition)
                self._sent.append(
                    SentBatch(
                        partition=partition,
                        values=call.records,
                        item=call.item,
                        of=call.inputs,
                        asked_ms=self._surroundings.environment.clock.now_ms(),
                    )
                )
            case "await-ack":
                if not self._has_sent:
                    raise ConfigError(f"{self.name}: await-ack, but nothing was sent")
                self._note_writes(CallResult(offset=await player.await_ack()))
            case "give-up":
                await player.give_up()
                self._note_writes(GIVEN_UP)
            case "commit":
                await player.commit()
                self._note_end(CallResult(), is_commit=True)
            case "abort":
                await player.abort()
                self._note_end(CallResult(), is_commit=False)
            case _:
                raise InvariantViolation(f"{self.name} can't {call.do!r}, the file was accepted")
        return CallResult()

    def _note_writes(self, answer: CallResult) -> None:
        """Note the result of all sent batches; only the last batch gets the offset."""
        sent_batches, self._sent = self._sent, []
        for batch in sent_batches:
            answer_of_batch = (
                answer if batch is sent_batches[-1] else CallResult(error=answer.error)
            )
            self._recorder.note_write(self.name, self._transaction, batch, answer_of_batch)

    def _note_end(self, answer: CallResult, *, is_commit: bool) -> None:
        self._recorder.note_end(self.name, self._transaction, answer, is_commit=is_commit)

    async def give_up(self, call: Call) -> None:
        """Never called: an application makes no calls in the background."""

    async def close(self) -> None:
        if self._sent:
            self._note_writes(GIVEN_UP)
        await self.player.close()
