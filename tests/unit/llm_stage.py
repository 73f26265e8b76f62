"""Test doubles for inferences: a loop host that records all calls, tools and agents, and scripted models."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from protolink_grpc.llms.loop import (
    ActionCall,
    Inference,
    InferenceRequest,
    InferenceResult,
    Observation,
)
from protolink_grpc.llms.mock import ScriptedLLM
from protolink_grpc.llms.port import (
    ToolSpec,
)
from protolink_grpc.models.card import AgentCapabilities, AgentCard, AgentSkill
from protolink_grpc.models.context import RunBudget
from protolink_grpc.models.events import (
    LlmCallCompleted,
    LlmStep,
    Payload,
    RunEvent,
    Severity,
    type_of,
)
from protolink_grpc.models.media import Media
from protolink_grpc.policy.budget import BudgetEnforcer

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
DAYS = {"type": "object", "properties": {"days": {"type": "integer", "minimum": 1}}}
WEATHER = ToolSpec("weather", "How it is", CITY, read_only=True)
BOOK = ToolSpec("book", "Books a room", DAYS)
HOTEL = AgentCard(
    "hotel",
    "Rooms",
    "grpc://hotel",
    capabilities=AgentCapabilities(supports_inference=False),
    skills=[AgentSkill("rooms", "Free rooms", {"type": "object", "required": ["city"], "properties": {"city": {}}})],
)
GUIDE = AgentCard("guide", "Knows places", "grpc://guide")


def tool(name: str = "weather", /, **args: Any) -> dict[str, Any]:
    return {"type": "tool_call", "tool": name, "args": args}


def final(content: Any = "done") -> dict[str, Any]:
    return {"type": "final", "content": content}


Outcome = Observation | Exception
Act = Callable[[ActionCall], Outcome]


@dataclass
class Stage:
    """A LoopHost without a runtime: it collects reports in a list and runs actions with a function."""

    act_with: Act = lambda call: Observation("ok", f"did {call.name}")
    budget: BudgetEnforcer = field(default_factory=lambda: BudgetEnforcer(RunBudget(max_steps=30)))
    reports: list[tuple[str, Payload]] = field(default_factory=list)
    deltas: list[tuple[str, int, str]] = field(default_factory=list)
    acts: list[list[ActionCall]] = field(default_factory=list)
    answers: dict[str, LlmCallCompleted] = field(default_factory=dict)
    files: dict[str, Sequence[Media]] = field(default_factory=dict)
    decisions: dict[str, RunEvent] = field(default_factory=dict)
    canceled: bool = False

    def check_canceled(self) -> None:
        if self.canceled:
            raise asyncio.CancelledError

    async def wait_while_paused(self) -> None:
        return

    async def report(
        self,
        payload: Payload,
        *,
        severity: Severity = "info",
        summary: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        if metadata and "decision" in metadata:
            self.decisions[metadata["decision"]] = RunEvent(payload=payload, metadata=dict(metadata))
        name = payload.kind if isinstance(payload, LlmStep) else type_of(payload)
        self.reports.append((name, payload))

    def delta(self, call_id: str, offset: int, text: str) -> None:
        self.deltas.append((call_id, offset, text))

    def recorded(self, call_id: str) -> LlmCallCompleted | None:
        return self.answers.get(call_id)

    async def publish_files(self, call_id: str, files: Sequence[Media]) -> None:
        self.files[call_id] = tuple(files)

    def recorded_files(self, call_id: str) -> Sequence[Media]:
        return self.files.get(call_id, ())

    def decided(self, key: str) -> RunEvent | None:
        return self.decisions.get(key)

    async def act(self, calls: Sequence[ActionCall]) -> list[Observation]:
        self.acts.append(list(calls))
        outcomes = [self.act_with(call) for call in calls]
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        return [outcome for outcome in outcomes if isinstance(outcome, Observation)]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.reports]

    def of(self, kind: type[Any]) -> list[Any]:
        return [payload for _, payload in self.reports if isinstance(payload, kind)]

    @property
    def positions(self) -> list[str]:
        return [call.position for calls in self.acts for call in calls]


def answers_of(stage: Stage) -> dict[str, LlmCallCompleted]:
    """The recorded answers of an attempt, by call id."""
    return {each.call_id: each for each in stage.of(LlmCallCompleted)}


REQUEST = InferenceRequest(
    "msg/0", "Where to?", "Be kind.", tools=(WEATHER, BOOK), peers=(HOTEL, GUIDE), agent_name="me"
)


async def run(
    script: Sequence[Any],
    stage: Stage | None = None,
    request: InferenceRequest = REQUEST,
    *,
    native: bool = True,
    **changes: Any,
) -> InferenceResult:
    model = script if not isinstance(script, Sequence) else ScriptedLLM(script, native)
    return await infer(model, stage or Stage(), replace(request, **changes) if changes else request)


async def infer(model: Any, stage: Stage, request: InferenceRequest = REQUEST) -> InferenceResult:
    async def no_wait(seconds: float) -> None:
        await asyncio.sleep(0)

    return await Inference(model, request, stage, sleep=no_wait, jitter=lambda: 1.0).run()


both_modes = pytest.mark.parametrize("native", [True, False], ids=["native", "json"])
