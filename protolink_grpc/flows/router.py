"""Router: the step before it, or a function, chooses one of several routes."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.flows.description import Edge, FlowDescription, Node, join
from protolink_grpc.flows.flow import Flow, Ports
from protolink_grpc.flows.prompts import routes_prompt
from protolink_grpc.flows.results import Ending, StepResult, put_artifact
from protolink_grpc.flows.scope import Scope
from protolink_grpc.flows.steps import FlowTarget, as_flow
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.artifact import Artifact
from protolink_grpc.models.json_value import from_json
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part, RouteDecision
from protolink_grpc.models.task import Task
from protolink_grpc.storage.port import TaskStore

ROUTE_DECISIONS = "route_decisions"
"""Key of `Task.metadata` with the decisions of all routers of the flow, oldest first."""

Item = Message | Artifact

_TAG = re.compile(r"\[ROUTE:\s*([^\]\s]+)\s*\]")


@checks_arguments
class Router(Flow):
    """One of several routes. The latest output of the task names its key.

    In this order: the last part of type `route` or `decision`, or with a JSON object such as `{"route_key": "editor"}`; the last
    `[ROUTE: key]` in a text, which is removed from it; the key that `choose` returns.

    Args:
        routes: A step for each key.
        routing_prompt: Instructions for the agent of the step before, which also receives the keys.
        choose: Returns a key for a task whose output has none.
    """

    kind = "router"

    def __init__(
        self,
        routes: Mapping[str, FlowTarget],
        routing_prompt: str = "",
        client: AgentClient | None = None,
        registry: Any = None,
        *,
        choose: Callable[[Task], str | Awaitable[str]] | None = None,
        name: str = "",
        store: TaskStore | None = None,
    ) -> None:
        super().__init__(client, registry, name=name, store=store)
        self.routes = {key: as_flow(target) for key, target in routes.items()}
        self.routing_prompt = routing_prompt
        self.choose = choose
        self.check()

    def check(self) -> None:
        if not self.routes:
            raise InvalidArgumentError("a router needs a route", field="routes")

    async def _advance(self, work: Task, scope: Scope) -> Ending:
        decision = _structured_decision(work.get_last_item()) or _take_tag(work)
        if decision is None and self.choose is not None:
            key = await scope.decide(work, self.choose, by="function")
            decision = RouteDecision(str(key), metadata={"source": "function"})
        keys = ", ".join(sorted(self.routes))
        if decision is None:
            raise InvalidArgumentError(
                f"the output before router '{self.name}' has no route; the routes are: {keys}", field="route_key"
            )
        if decision.route_key not in self.routes:
            raise InvalidArgumentError(
                f"router '{self.name}' has no route '{decision.route_key}'; the routes are: {keys}", field="route_key"
            )
        known = work.metadata.get(ROUTE_DECISIONS)
        work.metadata[ROUTE_DECISIONS] = [*(known if isinstance(known, list) else ()), decision.to_dict()]
        await scope.report("workflow.routed", key=decision.route_key, reason=decision.reason or "")
        return await self.routes[decision.route_key].run(work, scope.at(decision.route_key))

    async def introduce(self, scope: Scope) -> str:
        return routes_prompt(self.routing_prompt, {key: await route.label(scope) for key, route in self.routes.items()})

    def receive(self, result: StepResult) -> StepResult:
        """Return the result with a route part instead of the tags in its latest item."""
        items: list[Any] = result.artifacts if result.ends_with_artifact else result.messages
        item, decision = _without_tags(items[-1]) if items else (None, None)
        if item is None or decision is None or _structured_decision(items[-1]) is not None:
            return result
        changed: list[Any] = [*items[:-1], item]
        return replace(result, artifacts=changed) if result.ends_with_artifact else replace(result, messages=changed)

    async def label(self, scope: Scope) -> str:
        return " or ".join([await route.label(scope) for route in self.routes.values()])

    def _draw(self, into: FlowDescription, path: str) -> tuple[Ports, Ports]:
        own = Node(path or self.name, self.name, self.kind)
        into.nodes.append(own)
        last: Ports = []
        for key, route in self.routes.items():
            entries, exits = route._draw(into, join(path, key))
            into.edges += [Edge(own.id, node, label or key) for node, label in entries]
            last += exits
        return [(own.id, "")], last


def _structured_decision(item: Message | Artifact | None) -> RouteDecision | None:
    """Return the decision of the last part that has one."""
    for part in reversed(item.parts) if item is not None else ():
        decision = _decision_of(part)
        if decision is not None:
            return decision
    return None


def _decision_of(part: Part) -> RouteDecision | None:
    content: Any = part.content
    if isinstance(content, RouteDecision):
        return content
    if isinstance(content, str) and content.strip().startswith("{"):
        try:
            content = from_json(content)
        except InvalidArgumentError:
            return None
    is_decision = part.type in ("route", "decision") or (
        isinstance(content, dict) and any(isinstance(content.get(key), str) for key in ("route_key", "route", "key"))
    )
    try:
        return RouteDecision.from_dict(content) if is_decision else None
    except InvalidArgumentError:
        return None


def _take_tag(work: Task) -> RouteDecision | None:
    """Remove the tags from the texts of the latest item, and return the last one as a decision."""
    item = work.get_last_item()
    if item is None:
        return None
    changed, decision = _without_tags(item)
    if decision is None:
        return None
    if isinstance(changed, Artifact):
        put_artifact(work, changed)
    else:
        work.messages[-1] = changed
    return decision


def _without_tags(item: Item) -> tuple[Item, RouteDecision | None]:
    """Return a copy without tags and with a route part for the last one; or the item itself, if it has no tag."""
    found = ""
    parts: list[Part] = []
    for part in item.parts:
        text = part.content if part.type in ("text", "infer_output") and isinstance(part.content, str) else ""
        keys = _TAG.findall(text)
        found = keys[-1] if keys else found
        parts.append(replace(part, content=_TAG.sub("", text).strip()) if keys else part)
    if not found:
        return item, None
    decision = RouteDecision(found, metadata={"source": "text"})
    return replace(item, parts=[*parts, Part("route", decision)]), decision
