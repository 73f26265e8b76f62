"""The items of a generator tool in a log: each once, also if a call is repeated after a crash, and within bounds."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtime_scene import ActionContext, actions_of

from protolink_grpc.errors import BudgetExceededError
from protolink_grpc.models.context import RunBudget
from protolink_grpc.models.events import ActionEnded, TaskArtifactUpdated
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.payload import Payload, TypedMessage
from protolink_grpc.models.tool_items import items_of
from protolink_grpc.runtime.actions import tool_items
from protolink_grpc.runtime.actions.gate import Outcome
from protolink_grpc.runtime.actions.tool_items import ItemLog
from protolink_grpc.tools.tool import Tool

ARTIFACT = "the items"


def produce(items: list[Any]) -> Tool:
    async def produce() -> AsyncIterator[Any]:
        for item in items:
            yield item

    return Tool.from_callable(produce, idempotent=True)


async def outcome_of(items: list[Any], fold: TaskFold, context: ActionContext | None = None) -> Outcome:
    """The outcome of a call that yields these items. Its artifacts are applied to the fold."""
    context = context or ActionContext()
    try:
        return await actions_of(produce(items)).call_tool(
            context, "produce", {}, position="here", items=ItemLog(ARTIFACT, fold)
        )
    finally:
        for event in context.log:
            if isinstance(event.payload, TaskArtifactUpdated):
                fold.apply(event.payload, fold.sequence + 1, 0, "run")


def recorded(fold: TaskFold) -> list[Any]:
    artifact = fold.artifact(ARTIFACT)
    return [] if artifact is None else items_of(artifact)


json_values = st.none() | st.booleans() | st.integers() | st.floats(0, 1) | st.text() | st.lists(st.integers())


@given(st.lists(json_values, max_size=6), st.integers(0, 6))
async def test_a_repetition_continues_after_the_recorded_items(items: list[Any], interrupted_after: int) -> None:
    fold = TaskFold("task")
    await outcome_of(items[:interrupted_after], fold)
    assert recorded(fold) == items[:interrupted_after]
    outcome = await outcome_of(items, fold)
    assert (outcome.result, outcome.error, recorded(fold)) == (items, None, items)


@pytest.mark.parametrize(
    ("again", "why"),
    [
        ([1, 3, 4], "item 1 differs from the recorded one"),
        ([1, 2.0], "item 1 differs"),
        ([True, 2], "item 0 differs"),
        ([1], "yielded 1 instead of 2 items"),
        ([], "yielded 0 instead of 2 items"),
    ],
)
async def test_a_repetition_with_other_items_fails_and_the_recorded_ones_stay(again: list[Any], why: str) -> None:
    fold = TaskFold("task")
    await outcome_of([1, 2], fold)
    outcome = await outcome_of(again, fold)
    assert outcome.error["code"] == "TOOL_FAILED"
    assert why in outcome.error["message"]
    assert recorded(fold) == [1, 2]


async def test_payloads_of_other_forms_are_items_too() -> None:
    item, fold = Payload(TypedMessage("acme.Leg", b"\1")), TaskFold("task")
    await outcome_of([item], fold)
    assert (await outcome_of([item, "end"], fold)).result == [item, "end"]
    assert recorded(fold) == [item, "end"]


async def test_a_change_of_a_result_does_not_change_the_log() -> None:
    fold = TaskFold("task")
    outcome = await outcome_of([[1]], fold)
    outcome.result[0].append(2)
    assert recorded(fold) == [[1]]


@pytest.mark.parametrize("in_log", [True, False])
async def test_the_end_of_the_action_has_the_result_unless_the_log_has_its_items(in_log: bool) -> None:
    for items, result in (([1, 2], None if in_log else [1, 2]), ([], [])):
        context = ActionContext()
        log = ItemLog(ARTIFACT, TaskFold("task")) if in_log else None
        await actions_of(produce(items)).call_tool(context, "produce", {}, position="here", items=log)
        assert [each.payload.result for each in context.log if isinstance(each.payload, ActionEnded)] == [result]
        assert context.types.count("task.artifact") == (len(items) if in_log else 0)


@pytest.mark.parametrize("in_log", [True, False])
async def test_the_size_of_all_items_is_bounded(in_log: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_items, "MAX_BYTES", 1 << 20)
    context, log = ActionContext(), ItemLog(ARTIFACT, TaskFold("task")) if in_log else None
    tool = produce(["x" * (256 << 10)] * 10)
    outcome = await actions_of(tool).call_tool(context, "produce", {}, position="here", items=log)
    assert outcome.error["message"] == "Tool 'produce' yielded more than 1 MiB"
    assert context.types.count("task.artifact") == (3 if in_log else 0)


@pytest.mark.parametrize("character", ["x", "\u20ac", "\n"])
async def test_the_size_of_one_item_is_bounded_in_encoded_bytes(character: str) -> None:
    most = (3 << 20) // len(json.dumps(character, ensure_ascii=False).encode()[1:-1])
    fold = TaskFold("task")
    outcome = await outcome_of([character * (most - 200), character * (most + 200)], fold)
    assert outcome.error["message"] == "Tool 'produce' yielded an item of more than 3 MiB"
    assert [len(item) for item in recorded(fold)] == [most - 200]


async def test_a_budget_is_checked_with_each_item() -> None:
    context = ActionContext(budget=RunBudget(max_output_tokens=1))
    context.on_emit = lambda event: _use_up(context) if event.type == "task.artifact" else None
    fold = TaskFold("task")
    with pytest.raises(BudgetExceededError):
        await outcome_of([1, 2, 3], fold, context)
    assert recorded(fold) == [1]
    assert context.types[-2:] == ["budget.exceeded", "action.failed"]


def _use_up(context: ActionContext) -> None:
    with pytest.raises(BudgetExceededError):
        context.budget.record_output_tokens(5)
