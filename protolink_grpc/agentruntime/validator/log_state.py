"""The facts of a log that the rules need, computed event by event.

The memory is that of what is open, plus a small record for each session, thread and task, and a hash for each event and each thing
that has ended: a log of a million events needs about 200 MB.
"""

import json
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from protolink_grpc.agentruntime.validator.event_file import Event
from protolink_grpc.agentruntime.validator.event_types import words
from protolink_grpc.agentruntime.validator.lifecycles import MODEL_CALL, SUBAGENT, AllItems, Items, Key
from protolink_grpc.agentruntime.validator.task_statuses import TERMINAL, status_after

RECENT: Final = 10_000
"""Number of events whose repetition is recognized as a second delivery of the same event."""

BEGINNINGS: Final = ("session.created", "thread.started", "turn.submitted", "task.created")
"""Types of the first event of a log that is whole."""

EXECUTION: Final = ("tool.progress", "tool.result", "process.started", "artifact.changed")
"""Types that show that a tool call, if they name one, is executed."""

EDITS: Final = ("editedArguments", "updatedInput", "updatedInputRef")
"""Fields of a decision that changes the arguments of a tool call."""

REFUSALS: Final = frozenset(
    words(
        "deny denied reject rejected expire expired cancel cancelled canceled timeout timed_out unavailable abort aborted"
    )
)
"""Decisions that do not allow what they are about."""

WITHDRAWN: Final = REFUSALS - {"deny", "denied", "reject", "rejected", "unavailable"}
"""Decisions that no one has to offer: the question expired, or its work was canceled."""


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """A tool of an inventory. `is_writing`: its calls must not overlap with others that have effects."""

    is_writing: bool
    is_destructive: bool


@dataclass(slots=True)
class TurnFacts:
    """An open turn. `begun`: the types of its events that were seen."""

    thread: Key
    is_queued: bool = False
    policy: str = ""
    begun: set[str] = field(default_factory=set)
    steps: list[Key] = field(default_factory=list)
    calls: list[Key] = field(default_factory=list)
    quiet_hooks: set[str] = field(default_factory=set)
    """Hooks that have failed open and have no warning yet."""
    routing: str = ""
    """The type of the last routing event; empty if there was none."""
    is_routed: bool = False
    """Whether a model was selected."""
    tools: dict[str, ToolFacts] = field(default_factory=dict)
    """The tools of its inventory."""
    writing: set[Key] = field(default_factory=set)
    """The executing calls of tools with effects."""
    stop_hooks: set[str] = field(default_factory=set)
    """The hook runs at the point `stop`."""
    blocking_stop: str = ""
    """The last of them, if it has blocked the end of the turn."""


@dataclass(slots=True)
class ThreadFacts:
    is_started: bool = False
    queue: list[str] = field(default_factory=list)
    active: dict[Key, str] = field(default_factory=dict)
    """The policies of the turns that have started and have not ended."""


@dataclass(slots=True)
class CallFacts:
    """A tool call of an open turn.

    Args:
        verdict: The last decision of the policy; `allow` after an answer that allows the call.
        question: The open question about it.
        refusal: The last answer, if it refused the call.
        blocking_hook: A hook that has failed closed.
        tool, policy: Those of `tool.started`.
        arguments: Digest of the arguments of `tool.started`; None if they are unknown or a reference.
        is_edited: A hook or an answer has changed the arguments.
        is_destructive: The policy decided about it as a destructive action.
        hook: A hook run that has stopped or changed the call.
    """

    turn: Key
    step: str = ""
    verdict: str = ""
    question: str = ""
    refusal: str = ""
    is_executing: bool = False
    has_violation: bool = False
    blocking_hook: str = ""
    tool: str = ""
    policy: str = ""
    arguments: int | None = None
    is_edited: bool = False
    is_destructive: bool = False
    has_sandbox: bool = False
    hook: str = ""


@dataclass(slots=True)
class TaskFacts:
    """A task. `attempt` is the type of its last attempt's last event; empty if it has no attempt."""

    status: str = ""
    attempt: str = ""
    is_canceling: bool = False
    subagents: set[str] = field(default_factory=set)
    artifacts: set[str] = field(default_factory=set)
    """The artifacts of an open task: their ids and references."""
    remote_artifacts: set[str] = field(default_factory=set)
    """The artifacts that the tasks of its peers have."""


@dataclass(slots=True)
class QuestionFacts:
    """An open question.

    Args:
        choices: The decisions that it offers.
        returned: The answer that came from a channel.
    """

    call: Key | None
    thread: Key
    choices: tuple[str, ...] = ()
    returned: str = ""


class LogState:
    """The state of a log after some of its events.

    Attributes:
        has_beginning: Whether the log begins with a session, a thread, a turn or a task.
        sequences: The last sequence of each session.
    """

    def __init__(self) -> None:
        self.has_beginning = False
        self.events = 0
        self.redelivered = 0
        self.sequences: dict[str, int] = {}
        self.sessions: dict[str, bool] = {}
        """Whether each session has its `session.created`."""
        self.threads: dict[Key, ThreadFacts] = {}
        self.turns: dict[Key, TurnFacts] = {}
        self.calls: dict[Key, CallFacts] = {}
        self.steps: dict[Key, Key] = {}
        """The turn of each step of open turns."""
        self.actions: dict[Key, QuestionFacts] = {}
        self.disconnected: set[Key] = set()
        """The channels that are disconnected."""
        self.channels: dict[Key, str] = {}
        """The channel to the peer that works on each subagent or task."""
        self.tasks: dict[str, TaskFacts] = {}
        self.runs: dict[str, str] = {}
        """The task of each run."""
        self.traced: set[str] = set()
        """The runs whose events have a trace id."""
        self.has_permissions = False
        self.has_subagents = False
        self.items = AllItems()
        self._ids: set[int] = set()
        self._ended_turns: set[int] = set()
        self._recent: OrderedDict[int, int] = OrderedDict()

    # -- Questions of rules ----------------------------------------------------------------------------------------------

    @property
    def models(self) -> Items:
        """The model calls."""
        return self.items.of(MODEL_CALL)

    @property
    def subagents(self) -> Items:
        return self.items.of(SUBAGENT)

    def has_event(self, event: Event) -> bool:
        return hash(event.text("eventId")) in self._ids

    def is_redelivered(self, event: Event) -> bool:
        """Whether the same event, with equal content, was one of the last `RECENT` ones."""
        return self._recent.get(hash(event.text("eventId"))) == event.digest

    def has_turn_ended(self, event: Event) -> bool:
        return hash(event.turn) in self._ended_turns

    def call_of(self, event: Event) -> CallFacts | None:
        return self.calls.get((event.text("sessionId"), event.text("toolCallId")))

    def is_writing(self, event: Event) -> bool:
        """Whether an event is about a call of a tool that has effects, according to the inventory of its turn."""
        call = self.call_of(event)
        tool = None if call is None else self.turns[call.turn].tools.get(call.tool)
        return tool is not None and tool.is_writing

    # -- The fold --------------------------------------------------------------------------------------------------------

    def note_beginning(self, event: Event) -> None:
        """Note whether the log is whole, if this is its first event."""
        if not self.events:
            self.has_beginning = event.type in BEGINNINGS

    def apply(self, event: Event) -> None:
        """Note the next event. The rules have checked it."""
        kind = event.type
        self.events += 1
        self._note_id(event)
        session = event.text("sessionId")
        if session:
            self.sessions[session] = self.sessions.get(session, False) or kind == "session.created"
        if event.text("threadId"):
            self._note_thread(event)
        if event.text("turnId") and not self.has_turn_ended(event):
            self._note_turn(event)
        if event.text("toolCallId"):
            self._note_call(event)
        if event.text("taskId"):
            self._note_task(event)
        if kind in ("action.required", "action.resolved"):
            self._note_action(event)
        elif kind.startswith("channel."):
            self._note_channel(event)
        self.items.apply(event)
        if kind in ("turn.completed", "turn.failed"):
            self._end_turn(event.turn)

    def _note_id(self, event: Event) -> None:
        key = hash(event.text("eventId"))
        self._ids.add(key)
        self._recent[key] = event.digest
        if len(self._recent) > RECENT:
            self._recent.popitem(last=False)
        sequence = event.record.get("sequence")
        if isinstance(sequence, int) and not isinstance(sequence, bool):
            self.sequences[event.text("sessionId")] = max(sequence, self.sequences.get(event.text("sessionId"), -1))

    def _note_thread(self, event: Event) -> None:
        thread = self.threads.setdefault(event.thread, ThreadFacts())
        if event.type == "thread.started":
            thread.is_started = True
        elif event.type == "queue.changed" and isinstance(order := event.payload.get("order"), list):
            thread.queue = [each for each in order if isinstance(each, str)]

    def _note_turn(self, event: Event) -> None:
        key, kind = event.turn, event.type
        turn = self.turns.get(key)
        if turn is None:
            turn = self.turns[key] = TurnFacts(event.thread)
        turn.begun.add(kind)
        if kind == "turn.submitted":
            turn.policy, turn.is_queued = event.text("policy"), event.payload.get("status") == "queued"
        elif kind == "turn.started" and turn.thread in self.threads:
            self.threads[turn.thread].active[key] = turn.policy
        elif kind.startswith("routing."):
            turn.routing = kind
            turn.is_routed = turn.is_routed or kind == "routing.decided"
        elif kind == "hook.failed" and event.payload.get("failOpen") is True:
            turn.quiet_hooks.add(event.text("hookRunId"))
        elif kind == "runtime.warning":
            turn.quiet_hooks.clear()
        elif kind == "tool.catalog.resolved":
            turn.tools = tools_of(event)
        if event.text("hookPoint") == "stop":
            turn.stop_hooks.add(event.text("hookRunId"))
        if kind == "hook.completed" and event.text("hookRunId") in turn.stop_hooks:
            turn.blocking_stop = event.text("hookRunId") if event.text("decision") == "block" else ""
        if step := event.text("stepId"):
            name = (event.text("sessionId"), step)
            if self.steps.setdefault(name, key) == key:
                turn.steps.append(name)

    def _note_call(self, event: Event) -> None:
        key, kind = (event.text("sessionId"), event.text("toolCallId")), event.type
        call = self.calls.get(key)
        if call is None:
            if not event.text("turnId") or self.has_turn_ended(event):
                return
            call = self.calls[key] = CallFacts(event.turn)
            self.turns[event.turn].calls.append(key)
        call.step = call.step or event.text("stepId")
        turn = self.turns[call.turn]
        if kind in EXECUTION and not call.is_executing:
            call.is_executing = True
            if key not in turn.writing and self.is_writing(event):
                turn.writing.add(key)
        if kind == "tool.started":
            call.tool, call.policy = event.text("toolName"), event.text("policy")
            call.arguments = arguments_of(event)
        elif kind in ("tool.result", "tool.failed"):
            turn.writing.discard(key)
        elif kind == "permission.evaluated":
            call.verdict, self.has_permissions = event.text("decision") or "unknown", True
            call.is_destructive = event.payload.get("destructive") is True
            call.is_edited = call.is_edited or event.text("decisionSource") == "human" or event.has("updatedInputRef")
        elif kind == "sandbox.applied":
            call.has_sandbox = True
        elif kind == "sandbox.violation":
            call.has_violation = True
        elif kind == "action.required":
            call.question, call.refusal = event.text("actionId"), ""
        elif kind == "hook.completed":
            call.is_edited = call.is_edited or event.has("updatedInputRef")
            if event.text("decision") in ("block", "deny") or event.has("updatedInputRef", "updatedToolOutputRef"):
                call.hook = event.text("hookRunId")
        elif kind == "hook.failed" and event.payload.get("failOpen") is False:
            call.blocking_hook = event.text("hookRunId")

    def _note_action(self, event: Event) -> None:
        key = (event.text("sessionId"), event.text("actionId"))
        if event.type == "action.required":
            call = event.text("toolCallId")
            self.actions[key] = QuestionFacts((key[0], call) if call else None, event.thread, choices_of(event))
            return
        action = self.actions.pop(key, None)
        gated = self.calls.get(action.call) if action is not None and action.call is not None else None
        if gated is not None and gated.question == key[1]:
            decision = event.text("decision")
            gated.question, gated.refusal = "", decision if decision in REFUSALS else ""
            gated.is_edited = gated.is_edited or decision == "edit" or event.has(*EDITS)
            if decision not in REFUSALS:
                gated.verdict = "allow"

    def _note_channel(self, event: Event) -> None:
        session, channel = event.text("sessionId"), event.text("channelId")
        if event.type in ("channel.connected", "channel.resumed"):
            self.disconnected.discard((session, channel))
        elif event.type == "channel.disconnected":
            self.disconnected.add((session, channel))
        elif event.type.startswith("channel.peer_task."):
            if channel and (work := event.text("subagentId") or event.text("taskId")):
                self.channels[(session, work)] = channel
            if (task := self.tasks.get(event.text("taskId"))) is not None:
                task.remote_artifacts.update(references_of(event, "remoteArtifactRefs"))
        elif event.type == "channel.permission_returned":
            question = self.actions.get((session, event.text("actionId")))
            if question is not None:
                question.returned = event.text("decision") or event.text("response")

    def _note_task(self, event: Event) -> None:
        kind = event.type
        task = self.tasks.get(event.text("taskId"))
        if task is None:
            task = self.tasks[event.text("taskId")] = TaskFacts()
        if run := event.text("runId"):
            self.runs.setdefault(run, event.text("taskId"))
            if event.text("traceId"):
                self.traced.add(run)
        if kind == "artifact.changed":
            task.artifacts.update(filter(None, (event.text("artifactId"), event.text("readRef"))))
        if not kind.startswith(("task.", "subagent.")):
            return
        task.status = status_after(event, task.status)
        if kind.startswith("task.attempt."):
            task.attempt = kind
        elif kind == "task.cancel_requested":
            task.is_canceling = True
        elif kind == "task.retrying":
            task.is_canceling = False
        elif kind == "subagent.spawned":
            task.subagents.add(event.text("subagentId"))
            self.has_subagents = True
        elif kind in ("subagent.completed", "subagent.failed", "subagent.closed"):
            task.subagents.discard(event.text("subagentId"))
            self.channels.pop((event.text("sessionId"), event.text("subagentId")), None)
        if task.status in TERMINAL and kind.startswith("task."):
            task.artifacts.clear()
            task.remote_artifacts.clear()
            self.channels.pop((event.text("sessionId"), event.text("taskId")), None)

    def _end_turn(self, key: Key) -> None:
        self.items.close_turn(key)
        self._ended_turns.add(hash(key))
        turn = self.turns.pop(key, None)
        if turn is None:
            return
        for step in turn.steps:
            self.steps.pop(step, None)
        for call in turn.calls:
            self.calls.pop(call, None)
        if turn.thread in self.threads:
            self.threads[turn.thread].active.pop(key, None)


def choices_of(event: Event) -> tuple[str, ...]:
    """Return the decisions that a question offers. A decision is a text, or an object with an id."""
    found = event.payload.get("availableDecisions", event.payload.get("decisions"))
    if not isinstance(found, list):
        return ()
    names = [each.get("id", each.get("decision")) if isinstance(each, dict) else each for each in found]
    return tuple(each for each in names if isinstance(each, str))


def arguments_of(event: Event) -> int | None:
    """Return a digest of the arguments of a tool call. None: the event does not have them, or only a reference."""
    found = event.payload.get("safeArgs")
    if found is None or (isinstance(found, dict) and ("outputRef" in found or "inputRef" in found)):
        return None
    return hash(json.dumps(found, sort_keys=True))


def tools_of(event: Event) -> dict[str, ToolFacts]:
    """Return the tools of an inventory by name. A tool without flags has no effects."""
    tools = event.payload.get("tools")
    found: dict[str, ToolFacts] = {}
    for each in tools if isinstance(tools, list) else ():
        name = each.get("toolName", each.get("name")) if isinstance(each, dict) else None
        if isinstance(name, str):
            is_writing = each.get("isReadOnly") is False and each.get("isConcurrencySafe") is not True
            found[name] = ToolFacts(is_writing, each.get("isDestructive") is True)
    return found


def references_of(event: Event, name: str) -> set[str]:
    """Return the references of a list in the payload or in `refs`: texts, or objects with an id or a reference."""
    refs = event.record.get("refs")
    found = event.payload.get(name, refs.get(name) if isinstance(refs, dict) else None)
    items = [
        each.get("artifactId", each.get("readRef")) if isinstance(each, dict) else each
        for each in (found if isinstance(found, list) else ())
    ]
    return {each for each in items if isinstance(each, str) and each}
