"""The types of events of the Agent Runtime contract, and the ids that each needs.

The ids are those that make an event joinable. The schemas of the contract require fewer: none of processes, jobs and channels.
"""

from types import MappingProxyType
from typing import Final


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text: the items of a long list of names."""
    return tuple(text.split())


_SCOPED: Final = "sessionId threadId turnId"

_TABLE: Final = {
    # Types, without their family: the ids of all of them. `a|b` means one of both.
    "session": {"created updated": "sessionId"},
    "thread": {"started updated": "sessionId threadId"},
    "turn": {"submitted started completed failed": _SCOPED},
    "run": {"status": "turnId|runId"},
    "model": {"requested delta completed failed": f"{_SCOPED} modelRequestId"},
    "reasoning": {"delta summary": _SCOPED},
    "tool": {
        "catalog.resolved": _SCOPED,
        "started args progress result failed": f"{_SCOPED} stepId toolCallId",
    },
    "action": {"required resolved": f"{_SCOPED} actionId"},
    "queue": {"changed": "sessionId threadId queueId|queuedTurnId"},
    "context": {
        "resolved": _SCOPED,
        "compaction.started compaction.completed compaction.failed": "sessionId threadId",
    },
    "artifact": {"changed": "artifactId turnId|taskId"},
    "evidence": {"changed": "evidenceId"},
    "subagent": {
        "spawned": f"{_SCOPED} subagentId",
        "status input output completed failed closed": "subagentId",
    },
    "limit": {"changed": "turnId|sessionId"},
    "snapshot": {"updated": "", "repaired": "sessionId threadId"},
    "runtime": {"warning error": ""},
    "task": {
        "created accepted queued started updated progress waiting blocked paused resumed retrying cancel_requested cancelled "
        "timed_out failed lost completed archived delegated dependency.updated": "taskId",
        "attempt.started attempt.completed attempt.failed": "taskId runId",
        "profile.resolved": "turnId",
    },
    "permission": {
        "evaluated": f"{_SCOPED} toolCallId|processId|actionId",
        "requested resolved": f"{_SCOPED} actionId",
    },
    "sandbox": {"applied violation": f"{_SCOPED} toolCallId|processId"},
    "hook": {"started completed failed": "hookRunId"},
    "policy": {"changed": ""},
    "process": {"started output input completed failed terminated": "processId"},
    "routing": {"candidates.resolved decided fallback.applied not_possible single_candidate": _SCOPED},
    "cost": {"estimated": _SCOPED, "recorded": f"{_SCOPED} modelRequestId|requestId"},
    "rate_limit": {"hit": "turnId|sessionId"},
    "quota": {"low blocked": "turnId|sessionId"},
    "channel": {
        "connected disconnected resumed message": "channelId",
        "peer_task.linked peer_task.updated": "taskId|subagentId",
        "permission_forwarded permission_returned": "channelId actionId",
    },
    "job": {
        "created started progress completed failed cancelled": "jobId",
        "item.started item.completed item.failed": "jobId jobItemId",
    },
    "output": {"spilled truncated redacted expired": "outputRef"},
    "history": {"window.loaded reconstructed rollback.started rollback.completed": "sessionId threadId"},
    "benchmark": {
        "dataset.resolved": "datasetId",
        "configuration.resolved": "configurationId",
        "trial.started trial.completed trial.failed reward.recorded": "trialId taskId runId",
        "comparison.completed": "",
    },
    "item": {"started updated completed": "stepId"},
}

IDS_OF_TYPES: Final = MappingProxyType(
    {
        f"{family}.{name}": tuple(ids.split())
        for family, groups in _TABLE.items()
        for names, ids in groups.items()
        for name in names.split()
    }
)
"""The ids that events of each type need. `a|b` means one of both."""

FAMILIES: Final = frozenset(_TABLE)

PROSE_TYPES: Final = frozenset(
    (
        "subagent.output",
        "channel.peer_task.linked",
        "channel.peer_task.updated",
        "item.started",
        "item.updated",
        "item.completed",
    )
)
"""The types that only the contract's text has. The schemas do not allow them."""

SCOPE_IDS: Final = frozenset(("sessionId", "threadId", "turnId"))

ENVELOPE_IDS: Final = words(
    "runtimeId sessionId threadId turnId taskId runId attemptId stepId toolCallId actionId subagentId traceId spanId parentTaskId "
    "rootTaskId artifactId evidenceId requestId processId channelId jobId jobItemId outputRef modelRequestId queueId"
)
"""The ids that the envelope may have."""

ENVELOPE_OBJECTS: Final = frozenset(
    words(
        "task taskAttempt taskRelationship taskGraph taskProgress taskAcceptance worker deliveryState permissionDecision "
        "sandboxProfile routingDecision candidateModelSet taskProfile limitState limitEvent costState hookRun executionEnvironment "
        "channel job jobItem output historyBoundary telemetry correlation benchmark trajectory reward comparison"
    )
)
"""The objects that the envelope may have beside the payload."""

ENVELOPE_TEXTS: Final = frozenset(("status", "phase", "statusReason", "nativeStatus"))

WORK_IDS: Final = (
    "sessionId",
    "threadId",
    "turnId",
    "taskId",
    "runId",
    "stepId",
    "toolCallId",
    "actionId",
    "subagentId",
)
"""The ids of different things. The id of an attempt may be that of its run, and that of a queued turn is that of its turn."""


def is_vendor_type(kind: str) -> bool:
    """Whether this is a type of an implementation: it has a prefix that is not a family of the contract."""
    prefix, dot, name = kind.partition(".")
    return bool(dot and prefix and name) and prefix not in FAMILIES
