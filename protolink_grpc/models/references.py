"""References between events of a log, which avoid copies of tool call arguments, of the actions of approvals and of the items of
generator tools.

A log has each value once. Readers that start at the beginning of the log or of a turn get complete payloads. For readers that start
elsewhere, the referenced values may be missing.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.action import PolicyDecision, RunAction
from protolink_grpc.models.events import (
    ActionEnded,
    ActionPolicyEvaluated,
    ActionRequested,
    ActionStarted,
    ApprovalRequired,
    LlmCallCompleted,
    RunEvent,
    TaskArtifactUpdated,
    TaskMessagesAdded,
    TaskStatusChanged,
    TaskSubmitted,
)
from protolink_grpc.models.json_value import is_same_json
from protolink_grpc.models.lifecycle import SETTLED
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import Part, PartType, ToolCall, ToolOutput
from protolink_grpc.models.tool_items import ITEMS_KIND, is_reference_to_items, items_of


@dataclass(slots=True)
class _Open:
    action: RunAction
    policy: PolicyDecision | None = None


@dataclass(slots=True)
class _Items:
    """The items of one tool call, and the artifact that has them."""

    artifact_id: str
    values: list[Any]


class References:
    """The tool calls of one log that no action refers to yet, its actions that have not ended, and the items of its tools.

    All are removed when the task ends or waits for input, so the size is bounded by the current work of a run.
    """

    __slots__ = ("_actions", "_calls", "_items")

    def __init__(self) -> None:
        self._calls: dict[str, Any] = {}
        self._actions: dict[str, _Open] = {}
        self._items: dict[str, _Items] = {}

    def whole(self, event: RunEvent) -> RunEvent:
        """Return the next event of the log with its references resolved. An event without references is returned unchanged."""
        payload = event.payload
        found = self.resolve(payload, event.action_id)
        return event if found is payload else replace(event, payload=found)

    def resolve(self, payload: Any, action_id: str) -> Any:
        """Return the payload of the next event of the log with its references resolved.

        Args:
            action_id: The event's action id.
        """
        read = RESOLVERS.get(payload.__class__)
        return payload if read is None else read(self, payload, action_id)

    def abridged(self, payload: ActionRequested, before: Sequence[Any]) -> ActionRequested:
        """Return the payload to write for a request, marked as abridged if the log already has the arguments.

        Args:
            before: Payloads between the last resolved one and the request.
        """
        call_id = payload.action.call_id
        if not call_id or set(payload.action.payload) != {"arguments"}:
            return payload
        calls = {call_id: self._calls[call_id]} if call_id in self._calls else {}
        for each in before:
            match each:
                case LlmCallCompleted(tool_calls=made):
                    _note(calls, made)
                case TaskMessagesAdded(messages=messages):
                    _note_messages(calls, messages)
                case TaskSubmitted(task=task):
                    _note_messages(calls, task.messages)
                case TaskStatusChanged(new_state=state) if state in SETTLED:
                    calls.clear()
                case ActionRequested(action=action):
                    calls.pop(action.call_id, None)
        if call_id not in calls or not is_same_json(calls[call_id], payload.action.payload["arguments"]):
            return payload
        return ActionRequested(payload.action, payload.position, abridged=True)

    def _submitted(self, payload: TaskSubmitted, _: str) -> TaskSubmitted:
        _note_messages(self._calls, payload.task.messages)
        return payload

    def _messages_added(self, payload: TaskMessagesAdded, _: str) -> TaskMessagesAdded:
        _note_messages(self._calls, payload.messages)
        return payload

    def _status(self, payload: TaskStatusChanged, _: str) -> TaskStatusChanged:
        if (self._calls or self._actions or self._items) and payload.new_state in SETTLED:
            self._calls, self._actions, self._items = {}, {}, {}
        return payload

    def _completed(self, payload: LlmCallCompleted, _: str) -> LlmCallCompleted:
        _note(self._calls, payload.tool_calls)
        return payload

    def _requested(self, payload: ActionRequested, _: str) -> ActionRequested:
        action = payload.action
        arguments = self._calls.pop(action.call_id, None)
        if payload.abridged and not action.payload and arguments is not None:
            action = replace(action, payload={"arguments": arguments})
            payload = replace(payload, action=action, abridged=False)
        self._actions[action.action_id] = _Open(action)
        return payload

    def _policy_evaluated(self, payload: ActionPolicyEvaluated, action_id: str) -> ActionPolicyEvaluated:
        known = self._actions.get(action_id)
        if known is not None:
            known.policy = payload.decision
        return payload

    def _approval_required(self, payload: ApprovalRequired, action_id: str) -> ApprovalRequired:
        known = self._actions.get(action_id)
        if not payload.abridged or known is None:
            return payload
        request = replace(
            payload.request,
            action=known.action,
            policy_decision=payload.request.policy_decision if known.policy is None else known.policy,
        )
        return replace(payload, request=request, abridged=False)

    def _started(self, payload: ActionStarted, action_id: str) -> ActionStarted:
        known = self._actions.get(action_id)
        if payload.arguments is not None or known is None:
            return payload
        return ActionStarted(payload.kind, payload.name, known.action.arguments)

    def _ended(self, payload: ActionEnded, action_id: str) -> ActionEnded:
        self._actions.pop(action_id, None)
        items = self._items.get(action_id) if self._items else None
        if items is None or payload.result is not None or payload.outcome != "completed":
            return payload
        return replace(payload, result=list(items.values))

    def _made(self, payload: TaskArtifactUpdated, _: str) -> TaskArtifactUpdated:
        artifact = payload.artifact
        action_id = artifact.action_id or ""
        known = self._items.get(action_id)
        if artifact.kind == ITEMS_KIND and action_id:
            if known is not None and payload.append:
                known.values += items_of(artifact)
            else:
                self._items[action_id] = _Items(artifact.id, items_of(artifact))
            return payload
        if known is None or not any(_is_output_of(known, part) for part in artifact.parts):
            return payload
        parts = [_with_items(part, known) if _is_output_of(known, part) else part for part in artifact.parts]
        return replace(payload, artifact=replace(artifact, parts=parts))


RESOLVERS: dict[Any, Callable[[References, Any, str], Any]] = {
    TaskSubmitted: References._submitted,
    TaskMessagesAdded: References._messages_added,
    TaskStatusChanged: References._status,
    LlmCallCompleted: References._completed,
    ActionRequested: References._requested,
    ActionPolicyEvaluated: References._policy_evaluated,
    ApprovalRequired: References._approval_required,
    ActionStarted: References._started,
    ActionEnded: References._ended,
    TaskArtifactUpdated: References._made,
}
"""Resolves the references of each kind of payload; all other kinds neither have references nor are referred to."""


def _is_output_of(items: _Items, part: Part) -> bool:
    content = part.content
    return isinstance(content, ToolOutput) and is_reference_to_items(content.result, items.artifact_id)


def _with_items(part: Part, items: _Items) -> Part:
    return replace(part, content=replace(part.as_tool_output(), result=list(items.values)))


def _note_messages(calls: dict[str, Any], messages: Iterable[Message]) -> None:
    for message in messages:
        for part in message.parts:
            if part.type == PartType.TOOL_CALL:
                try:
                    _note(calls, (part.as_tool_call(),))
                except InvalidArgumentError:
                    continue  # an invalid tool call, to which no action refers


def _note(calls: dict[str, Any], made: Iterable[ToolCall]) -> None:
    for call in made:
        if call.call_id:
            calls[call.call_id] = call.args
