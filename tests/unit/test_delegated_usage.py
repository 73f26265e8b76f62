"""The usage of delegated work: known, zero because the work did not begin, or unknown."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from runtime_scene import ActionContext, journal_of

from protolink_grpc.errors import PermissionDeniedError, ProtolinkError, TaskNotFoundError, UnavailableError
from protolink_grpc.models import RunBudget, Task
from protolink_grpc.models.action import BudgetUsage
from protolink_grpc.models.events import ActionEnded, PeerTaskLinked
from protolink_grpc.runtime.actions.delegation import Actions
from protolink_grpc.runtime.actions.gate import Gate
from protolink_grpc.tools.toolbox import Toolbox

LINK = PeerTaskLinked("hotel", "grpc://hotel:1", "plgrpc", "child")
ASSIGNED = PeerTaskLinked("hotel", "https://hotel.example.com", "a2a", "theirs", "context")
BUDGET = RunBudget(max_tool_calls=5)
REFUSED = PermissionDeniedError("no")


class Peer:
    """An agent that sends the links and then fails."""

    has_all_cards = True

    def __init__(self, error: ProtolinkError, *links: PeerTaskLinked) -> None:
        self._error, self._links = error, links

    async def cards(self) -> list[Any]:
        return []

    async def run(
        self,
        target: str,
        task: Task,
        request_id: str,
        *,
        note: Callable[[PeerTaskLinked], Awaitable[None]] | None = None,
        **_: Any,
    ) -> Task:
        for link in self._links:
            assert note is not None
            await note(link)
        raise self._error


async def delegate(peer: Peer, scene: ActionContext) -> tuple[BudgetUsage | None, int]:
    """Return the usage that the log has, and the tool calls that the budget has counted."""
    actions = Actions(Toolbox(), Gate(None), peer)
    with pytest.raises(ProtolinkError):
        await actions.send(scene, "hotel", Task("child"), position="here")
    (ended,) = [event.payload for event in scene.log if isinstance(event.payload, ActionEnded)]
    return ended.usage, scene.budget.usage.tool_calls


async def interrupted(link: PeerTaskLinked, budget: RunBudget) -> ActionContext:
    """Return the context of a run after one whose process died while it delegated the work."""
    before = ActionContext()
    await delegate(Peer(REFUSED, link), before)
    log = [event for event in before.log if not isinstance(event.payload, ActionEnded)]
    return ActionContext(budget=budget, journal=journal_of(log))


async def test_work_that_an_agent_refuses_has_used_nothing() -> None:
    for links in ((), (LINK,), (replace(ASSIGNED, task_id=""),)):
        assert await delegate(Peer(REFUSED, *links), ActionContext(budget=BUDGET)) == (BudgetUsage(), 0)


async def test_after_a_crash_a_refusal_does_not_mean_that_the_work_has_used_nothing() -> None:
    for link in (LINK, ASSIGNED):
        for peer in (Peer(TaskNotFoundError("gone")), Peer(REFUSED, link)):
            assert await delegate(peer, await interrupted(link, BUDGET)) == (BudgetUsage(tool_calls=5), 5)


async def test_work_of_an_agent_that_has_assigned_its_ids_has_an_unknown_usage() -> None:
    links = replace(ASSIGNED, task_id=""), ASSIGNED
    assert await delegate(Peer(REFUSED, *links), ActionContext(budget=BUDGET)) == (BudgetUsage(tool_calls=5), 5)


async def test_an_unknown_usage_without_limits_is_not_zero() -> None:
    assert await delegate(Peer(REFUSED, LINK), await interrupted(LINK, RunBudget())) == (None, 0)
    assert await delegate(Peer(UnavailableError("away"), LINK), ActionContext()) == (None, 0)
