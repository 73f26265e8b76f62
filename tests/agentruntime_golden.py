"""A valid event log of the Agent Runtime contract, written by hand, that uses every family of events."""

import copy
import json
from typing import Any

Record = dict[str, Any]


def event(kind: str, payload: Record | None = None, **ids: Any) -> Record:
    """Return an event of session `s`, without eventId and sequence."""
    its = copy.deepcopy(payload or {})
    return {"type": kind, "sessionId": "s", "timestamp": "2026-06-12T12:00:00Z", **ids, "payload": its}


def numbered(log: list[Record]) -> list[Record]:
    """Return the log with an eventId and a sequence for each event that has none."""
    return [
        {"eventId": f"e{place}", "sequence": place, "schemaVersion": "lime-profile-0.4.0", "runtimeId": "r", **each}
        for place, each in enumerate(log)
    ]


def text_of(log: list[Record]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in numbered(log))


class Turn:
    """Builds the events of one turn, with the ids that they share."""

    def __init__(self, turn: str, thread: str = "main") -> None:
        self.scope = {"threadId": thread, "turnId": turn}
        self.task = {**self.scope, "taskId": f"task-{turn}"}
        self.run = {**self.task, "runId": f"run-{turn}", "traceId": f"trace-{turn}"}

    def submitted(self, status: str = "accepted", policy: str = "enqueue") -> Record:
        payload = {"status": status, "policy": policy, "inputRef": f"in-{self.scope['turnId']}"}
        return event("turn.submitted", payload, **self.task)

    def queue(self, state: str, *order: str) -> Record:
        payload = {"state": state, "order": [*order]}
        return event("queue.changed", payload, **self.scope, queueId=self.scope["turnId"])

    def begin(self) -> list[Record]:
        return [
            event("task.created", {"status": "accepted"}, **self.task),
            event("task.started", {"status": "running"}, **self.run),
            event("task.attempt.started", {"status": "running"}, **self.run),
            event("turn.started", {"status": "running"}, **self.run),
        ]

    def end(self) -> list[Record]:
        return [
            event("task.attempt.completed", {"status": "completed"}, **self.run),
            event("task.completed", {"status": "completed"}, **self.run),
            event("turn.completed", {"status": "completed", "outcome": "completed"}, **self.task),
        ]

    def of(self, kind: str, payload: Record | None = None, **ids: Any) -> Record:
        """Return an event of the run."""
        return event(kind, payload, **{**self.run, **ids})

    def call(self, kind: str, call: str, payload: Record | None = None, **ids: Any) -> Record:
        """Return an event of a tool call."""
        return self.of(kind, payload, toolCallId=call, stepId=f"step-{call}", **ids)

    def evaluated(self, call: str, decision: str) -> list[Record]:
        """Return the decision of the policy and the begin of the call."""
        policy = {"allow": "allowed", "deny": "denied"}.get(decision, decision)
        found = {"decision": decision, "decisionSource": "rule", "decisionReason": "it costs", **DESTRUCTIVE}
        started = {"toolName": "book", "safeArgs": {"nights": 2}, "policy": policy}
        return [self.call("permission.evaluated", call, found), self.call("tool.started", call, started)]

    def asked(self, call: str, question: str) -> list[Record]:
        payload = {"actionType": "approval", "prompt": "Book it?", "availableDecisions": ["allow", "deny"]}
        payload["permissionMode"] = "default"
        return [
            self.call("permission.requested", call, {"approvalActionId": question}, actionId=question),
            self.call("action.required", call, payload, actionId=question),
        ]

    def answered(self, call: str, question: str, decision: str) -> list[Record]:
        kinds = ("action.resolved", "permission.resolved")
        return [self.call(kind, call, {"decision": decision, "decidedBy": "ada"}, actionId=question) for kind in kinds]


FAILURE: Record = {"status": "failed", "failureCategory": "tool", "retryable": False}
CANCELED: Record = {"status": "cancelled", "failureCategory": "cancelled", "retryable": False}
SANDBOX: Record = {"mode": "workspace_write", "cwd": "/home", "network": "restricted"}
DESTRUCTIVE: Record = {"destructive": True, "scope": "call", "rollbackAdvice": "cancel the booking"}
TOOL: Record = {
    "toolName": "book",
    "description": "Books a room.",
    "inputSchema": {"type": "object"},
    "policy": "ask",
    "runtimeOwner": "local",
    "isReadOnly": False,
    "isConcurrencySafe": False,
    "isDestructive": True,
    "interruptBehavior": "cancel",
}


def golden() -> list[Record]:
    """Return the log. It has three turns of the thread `main`, of which two waited, and two parallel ones of `side`."""
    one, two, three, four, five = Turn("t1"), Turn("t2"), Turn("t3"), Turn("t4", "side"), Turn("t5", "side")
    return [
        event("session.created", {"title": "Trip"}),
        event("thread.started", {"title": ""}, threadId="main"),
        event("thread.started", {"title": "Side"}, threadId="side"),
        one.submitted(),
        *one.begin(),
        two.submitted("queued"),
        two.queue("queued", "t2"),
        three.submitted("queued"),
        three.queue("queued", "t2", "t3"),
        three.queue("promoted", "t3", "t2"),
        *_prepared(one),
        *_models(one),
        *_approved_call(one),
        *_failed_calls(one),
        *_delegated(one),
        *_notes(one),
        *one.end(),
        three.queue("started", "t2"),
        *three.begin(),
        three.of("task.attempt.failed", FAILURE),
        three.of("task.retrying", {"status": "retrying"}),
        three.of("task.attempt.started", {"status": "running"}, runId="run-t3-2"),
        three.of("task.cancel_requested", {"reason": "enough"}, runId="run-t3-2"),
        three.of("task.attempt.failed", CANCELED, runId="run-t3-2"),
        three.of("task.cancelled", {"status": "cancelled"}, runId="run-t3-2"),
        event("turn.failed", CANCELED, **three.task),
        event("task.created", {"status": "accepted"}, **two.task),
        event("task.cancel_requested", {"reason": "removed"}, **two.task),
        event("task.cancelled", {"status": "cancelled"}, **two.task),
        two.queue("removed"),
        event("turn.failed", CANCELED, **two.task),
        event("thread.updated", {"status": "cancelled"}, threadId="main"),
        four.submitted(policy="start"),
        *four.begin(),
        five.submitted(policy="start"),
        *five.begin(),
        *five.end(),
        four.of("task.attempt.failed", FAILURE),
        four.of("task.failed", FAILURE),
        event("turn.failed", FAILURE, **four.task),
        *_history(),
        *_benchmark(),
        event("acme.note", {"text": "a type of an implementation"}),
        event("session.updated", {"title": "Trip to Lyon", "archived": True}),
        *_quiet_session(),
    ]


def _quiet_session() -> list[Record]:
    """Return the events of another session, without turns."""
    session = {"sessionId": QUIET_SNAPSHOT["sessionId"]}
    return [
        event("session.created", {"title": "Quiet"}, **session),
        event("thread.started", {"title": ""}, threadId="main", **session),
    ]


def _compaction(turn: Turn, *questions: str) -> list[Record]:
    done = {"summary": "", "strategy": "tokens", "beforeTokens": 9, "afterTokens": 0, "preservedActions": [*questions]}
    return [
        turn.of("context.compaction.started", {"trigger": "auto"}),
        turn.of("context.compaction.completed", done),
    ]


def _prepared(turn: Turn) -> list[Record]:
    return [
        turn.of("task.profile.resolved", {"taskKind": "chat", "source": "settings"}),
        turn.of("routing.not_possible", {"reason": "quota"}),
        turn.of("routing.candidates.resolved", {"candidates": [{"model": "m"}], "candidateCount": 1}),
        turn.of("routing.single_candidate", {"candidateCount": 1}),
        turn.of("routing.decided", {"selectedModel": "m", "decisionReason": "the only one"}),
        turn.of("tool.catalog.resolved", {"tools": [TOOL]}),
        *_compaction(turn),
        turn.of("context.resolved", {"memoryRefs": ["r1"]}),
    ]


def _models(turn: Turn) -> list[Record]:
    request = {"provider": "p", "model": "m"}
    return [
        turn.of("cost.estimated", {"estimate": "unknown"}, modelRequestId="m1"),
        turn.of("model.requested", request, modelRequestId="m1"),
        turn.of("model.failed", {"failureCategory": "model", "retryable": True}, modelRequestId="m1"),
        turn.of("rate_limit.hit", {"provider": "p"}, modelRequestId="m1"),
        turn.of("routing.fallback.applied", {"from": "m", "to": "n", "reason": "limited"}),
        turn.of("model.requested", request, modelRequestId="m2"),
        turn.of("model.delta", {"text": "to"}, modelRequestId="m2"),
        turn.of("reasoning.summary", {"text": "thinking"}),
        turn.of("model.completed", {"usage": "unknown", "stopReason": "unknown"}, modelRequestId="m2"),
        turn.of("cost.recorded", {"costMicros": 0}, modelRequestId="m2"),
        turn.of("limit.changed", {"limitState": {"steps": 1}}),
    ]


def _approved_call(turn: Turn) -> list[Record]:
    process = {"command": "ls", "cwd": "/home", "permissionDecision": "allow"}
    hook = {"hookRunId": "h1"}
    channel = {"channelId": "ch1", "actionId": "q1"}
    returned = {"peer": "phone", "decidedBy": "ada", "decision": "allow"}
    return [
        *turn.evaluated("c1", "ask"),
        *turn.asked("c1", "q1"),
        turn.of("task.waiting", {"status": "waiting_permission"}),
        *_compaction(turn, "q1"),
        turn.of("channel.permission_forwarded", **channel),
        turn.of("channel.permission_returned", returned, **channel),
        *turn.answered("c1", "q1", "allow"),
        turn.of("task.resumed", {"status": "running"}),
        turn.call("sandbox.applied", "c1", SANDBOX),
        turn.call("hook.started", "c1", hook),
        turn.call("hook.completed", "c1", {**hook, "decision": "continue", "updatedInputRef": "i2", "durationMs": 1}),
        turn.call("tool.progress", "c1", {"status": "running", "safeArgs": {"nights": 3}}),
        turn.call("process.started", "c1", process, processId="p1"),
        turn.of("process.output", {"stream": "stdout", "chunk": "a"}, processId="p1"),
        turn.of("process.input", {"bytes": 1}, processId="p1"),
        turn.of("process.completed", {"exitCode": 0}, processId="p1"),
        turn.of("output.spilled", {"sizeBytes": 9, "mediaType": "text/plain"}, outputRef="o1"),
        turn.of("output.truncated", {"truncation": "tail"}, outputRef="o1"),
        turn.of("artifact.changed", {"readRef": "a1"}, artifactId="a1"),
        turn.call("tool.result", "c1", {"result": None, **hook}),
        *turn.evaluated("c6", "allow"),
        turn.call("tool.result", "c6", {"outputRef": "o1", "preview": "a"}),
    ]


def _failed_calls(turn: Turn) -> list[Record]:
    """Return calls that the sandbox, the policy, a person and a hook have stopped."""
    return [
        *turn.evaluated("c2", "sandboxed"),
        turn.call("hook.started", "c2", {"hookRunId": "h2"}),
        turn.call("hook.failed", "c2", {"hookRunId": "h2", "failOpen": True, "durationMs": 0}),
        turn.of("runtime.warning", {"category": "hook"}),
        turn.call("sandbox.applied", "c2", SANDBOX),
        turn.call("tool.progress", "c2", {}),
        turn.call("sandbox.violation", "c2", {"boundary": "network"}),
        turn.call("tool.failed", "c2", {"failureCategory": "sandbox_denied", "retryable": False}),
        *turn.evaluated("c3", "deny"),
        turn.call("tool.failed", "c3", {"failureCategory": "denied", "retryable": False}),
        *turn.evaluated("c4", "ask"),
        *turn.asked("c4", "q4"),
        *turn.answered("c4", "q4", "deny"),
        turn.call("tool.failed", "c4", {"failureCategory": "denied", "retryable": False}),
        *turn.evaluated("c5", "allow"),
        turn.call("hook.started", "c5", {"hookRunId": "h5"}),
        turn.call("hook.failed", "c5", {"hookRunId": "h5", "failOpen": False, "durationMs": 2}),
        turn.call("tool.failed", "c5", {"failureCategory": "hook", "retryable": False}),
    ]


def _delegated(turn: Turn) -> list[Record]:
    peer = {"subagentId": "peer-task"}
    edge = {
        "kind": "spawned_subagent",
        "targetId": "peer-task",
        "status": "active",
        "createdAt": "2026-06-12T12:00:00Z",
    }
    item = {"jobId": "j1", "jobItemId": "i1"}
    failed = {"attemptCount": 1, "lastError": "timeout", "retryable": True}
    channel = {"transport": "http_json", "peerRole": "peer_agent", "capabilities": ["tasks"]}
    remote = {"nativeProtocol": "a2a", "remoteTaskId": "r1", "remoteContextId": "rc1", "remoteAgentRef": "hotel"}
    updated = {"nativeStatus": "TASK_STATE_WORKING", "remoteArtifactRefs": ["bill"]}
    to_peer = {**peer, "channelId": "ch2"}
    return [
        turn.of("task.delegated", {"agent": "hotel"}, **peer),
        turn.of("task.dependency.updated", edge),
        turn.of("subagent.spawned", {"agent": "hotel"}, **peer),
        turn.of("subagent.status", {"status": "running"}, **peer),
        turn.of("channel.connected", channel, channelId="ch2"),
        turn.of("channel.peer_task.linked", remote, **to_peer),
        turn.of("channel.disconnected", {"reason": "network", "retryable": True}, channelId="ch2"),
        turn.of("channel.resumed", {"cursor": 1}, channelId="ch2"),
        turn.of("channel.peer_task.updated", updated, **to_peer),
        turn.of("artifact.changed", {"readRef": "bill"}, artifactId="a2"),
        turn.of("subagent.completed", {"status": "completed"}, **peer),
        turn.of("subagent.closed", {"reason": "done"}, **peer),
        turn.of("job.created", {"status": "pending", "instructionRef": "in-t1", "itemCount": 1}, jobId="j1"),
        turn.of("job.started", jobId="j1"),
        turn.of("job.item.started", **item),
        turn.of("job.item.failed", failed, **item),
        turn.of("job.item.started", **item),
        turn.of("job.item.completed", **item),
        turn.of("job.progress", {"done": 1}, jobId="j1"),
        turn.of("job.completed", jobId="j1"),
    ]


def _notes(turn: Turn) -> list[Record]:
    stop = {"hookRunId": "h9"}
    return [
        turn.of("task.progress", {"percent": 0}),
        turn.of("run.status", {"phase": "working"}, nativeStatus="WORKING"),
        turn.of("evidence.changed", {"packRef": "pack"}, evidenceId="ev1", correlation={"traceId": "unavailable"}),
        turn.of("runtime.error", {"category": "peer"}),
        turn.of("item.started", {"kind": "todo"}, stepId="item1"),
        turn.of("item.updated", {"kind": "todo"}, stepId="item1"),
        turn.of("item.completed", {"kind": "todo"}, stepId="item1"),
        turn.of("hook.started", {**stop, "hookPoint": "stop"}),
        turn.of("hook.completed", {**stop, "decision": "continue", "durationMs": 1}),
    ]


def _history() -> list[Record]:
    done = {"targetTurnId": "t3", "removedTurns": ["t3"], "baseline": "t1"}
    return [
        event("history.rollback.started", {"target": "t3"}, threadId="main"),
        event("history.rollback.completed", done, threadId="main"),
        event("snapshot.repaired", {"gap": [1, 2]}, threadId="main"),
        event("snapshot.updated", {"snapshot": "session", "sequence": 9}),
    ]


def _benchmark() -> list[Record]:
    trial = {"benchmark": {"trialId": "tr1"}, "taskId": "bench", "runId": "run-bench", "refs": {"trajectoryRef": "t"}}
    compared = {"meanRewardDelta": 0, "evidenceCompletenessRate": 1, "p0QcGateRegressionCount": 0}
    return [
        event("benchmark.trial.started", **trial, threadId="side", turnId="t5"),
        event("benchmark.trial.completed", **trial),
        event("benchmark.reward.recorded", {"reward": 0}, **trial),
        event(
            "benchmark.comparison.completed", comparison=compared, benchmark={"datasetId": "d"}, refs={"packRef": "p"}
        ),
    ]


END = "2026-06-12T12:00:00Z"


def _attempt(run: str, status: str) -> Record:
    return {"runId": run, "status": status, "startedAt": END, "endedAt": END}


SNAPSHOT: Record = {
    "schemaVersion": "lime-profile-0.4.0",
    "runtimeId": "r",
    "sessionId": "s",
    "title": "Trip to Lyon",
    "updatedAt": END,
    "turnCount": 5,
    "evidenceRefs": ["ev1"],
    "executionEnvironment": {"cwd": "/home"},
    "sandboxState": {"mode": "workspace_write"},
    "channelSummary": {"status": "stale"},
    "telemetrySummary": {"status": "not_applicable"},
    "taskSummary": {"completed": 2},
    "routingLimitSummary": {
        "taskProfile": {"taskKind": "chat"},
        "candidateModelSet": {"candidateCount": 1},
        "routingDecision": {"selectedModel": "n"},
    },
    "tasks": [
        {
            "taskId": "task-t1",
            "status": "completed",
            "currentRunId": "run-t1",
            "endedAt": END,
            "attempts": [_attempt("run-t1", "completed")],
            "relationships": [{"kind": "spawned_subagent", "targetId": "peer-task"}],
        },
        {
            "taskId": "task-t3",
            "status": "cancelled",
            "attempts": [_attempt("run-t3", "failed"), _attempt("run-t3-2", "cancelled")],
        },
    ],
    "threads": [
        {
            "threadId": "main",
            "status": "cancelled",
            "pendingRequests": [],
            "queuedTurns": [],
            "incidents": [],
            "evidenceSummary": {"evidenceRefs": ["ev1"]},
            "jobs": [
                {"jobId": "j1", "status": "completed", "items": [{"jobItemId": "i1", "status": "reported"}]},
            ],
            "turns": [
                {
                    "turnId": "t1",
                    "status": "completed",
                    "completedAt": END,
                    "rolledBack": False,
                    "executionEnvironment": {"cwd": "/home"},
                },
                {"turnId": "t2", "status": "cancelled", "completedAt": END},
                {"turnId": "t3", "status": "cancelled", "completedAt": END, "rolledBack": True},
            ],
        },
        {
            "threadId": "side",
            "status": "idle",
            "turns": [],
            "pendingRequests": [],
            "queuedTurns": [],
            "incidents": [],
            "evidenceSummary": {},
        },
    ],
}
"""The snapshot of the session `s` after the log."""


QUIET_SNAPSHOT: Record = {
    "schemaVersion": "lime-profile-0.4.0",
    "runtimeId": "r",
    "sessionId": "quiet",
    "title": "Quiet",
    "updatedAt": END,
    "turnCount": 0,
    "evidenceRefs": [],
    "executionEnvironment": {"status": "unavailable"},
    "sandboxState": {"status": "unavailable"},
    "telemetrySummary": {"status": "not_applicable"},
    "routingLimitSummary": {"status": "unavailable"},
    "taskSummary": {"completed": 0},
    "tasks": [],
    "threads": [
        {
            "threadId": "main",
            "status": "idle",
            "turns": [],
            "pendingRequests": [],
            "queuedTurns": [],
            "incidents": [],
            "evidenceSummary": {},
        },
    ],
}
"""The snapshot of the session without turns: only there, parts are unavailable."""
