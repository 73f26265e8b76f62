"""An inference inside a run: what the loop reports goes into the log, what it wants done goes through the gate."""

import asyncio
from collections.abc import Sequence

from protolink_grpc.errors import ToolFailedError, ToolRejectedError
from protolink_grpc.llms.surroundings import ActionCall, Observation
from protolink_grpc.models.events import FOLLOWING_STEPS, LlmCallCompleted, LlmStep, Payload, RunEvent, Severity
from protolink_grpc.policy.budget import BudgetEnforcer
from protolink_grpc.runtime.actions import Actions
from protolink_grpc.runtime.gate import TOOL_CALL
from protolink_grpc.runtime.outcome import Outcome, error_value
from protolink_grpc.runtime.run import Run


class RunSurroundings:
    """The world of one inference of one run."""

    def __init__(self, run: Run, actions: Actions) -> None:
        self._run = run
        self._actions = actions

    @property
    def budget(self) -> BudgetEnforcer:
        return self._run.budget

    def check(self) -> None:
        self._run.token.raise_if_cancelled()

    async def report(self, payload: Payload, *, severity: Severity = "info", summary: str = "") -> None:
        if isinstance(payload, LlmStep) and payload.kind in FOLLOWING_STEPS:
            return
        envelope = summary or severity != "info"
        await self._run.emit(RunEvent(payload=payload, severity=severity, summary=summary) if envelope else payload)

    def delta(self, call_id: str, offset: int, text: str) -> None:
        self._run.delta(call_id, offset, text)

    def recorded(self, call_id: str) -> LlmCallCompleted | None:
        journal = self._run.journal
        return None if journal is None else journal.answers.get(call_id)

    async def act(self, calls: Sequence[ActionCall]) -> list[Observation]:
        if len(calls) == 1:
            return [await self._act(calls[0])]
        tasks = [asyncio.ensure_future(self._act(call)) for call in calls]
        try:
            return await asyncio.gather(*tasks)
        finally:
            # They change nothing: the first that may not run ends the others, too.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _act(self, call: ActionCall) -> Observation:
        run = self._run
        try:
            if call.kind == TOOL_CALL:
                outcome = await self._actions.call_tool(
                    run, call.name, call.arguments, position=call.position, call_id=call.call_id
                )
            else:
                outcome = await self._actions.delegate(
                    run, call.name, call.arguments, position=call.position, call_id=call.call_id
                )
        except ToolRejectedError as error:
            # It could not even be prepared: the model may correct the call.
            return Observation("rejected", None, error_value(error))
        except ToolFailedError as error:
            return Observation("failed", None, error_value(run.reported(error)))
        return _observed(outcome)


def _observed(outcome: Outcome) -> Observation:
    if outcome.error is None:
        return Observation("ok", outcome.result)
    return Observation("rejected" if outcome.rejected else "failed", None, outcome.error)
