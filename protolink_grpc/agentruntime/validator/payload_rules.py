"""Rules about the fields that a payload needs, where there is nothing else to say about an event. One row each."""

from typing import Final

from protolink_grpc.agentruntime.validator.event_file import Event
from protolink_grpc.agentruntime.validator.log_state import LogState
from protolink_grpc.agentruntime.validator.rule import HOLDS, Outcome, RuleSet

_ROWS: Final = (
    # The rule, its sentence, its source, the types, and the fields that one of them needs each. `a|b` means one of both.
    (
        "R090",
        "context.resolved has what was selected or omitted.",
        "TC:41",
        "context.resolved",
        "manifest|refs|memoryRefs|sourceRefs|knowledgeRefs|fileRefs|workspaceRefs|instructionRefs|policyFacts|omissions",
    ),
    (
        "R033.4",
        "A compaction has its summary or continuation, and the tokens before and after.",
        "SH:16, TC:53",
        "context.compaction.completed",
        "summary|summaryRef|summaryPreview|continuationRef|replacementHistoryRef|strategy beforeTokens|tokensBefore|tokenUsage "
        "afterTokens|tokensAfter|tokenUsage",
    ),
    ("R033.5", "A compaction names its trigger.", "SH:16, TC:53", "context.compaction.started", "trigger"),
    (
        "R035.4",
        "A rollback has its target, the removed turns and the baseline.",
        "SH:22",
        "history.rollback.completed",
        "target|targetTurnId removedTurns baseline|baselineRef|survivingBaseline",
    ),
    ("R030", "A repaired snapshot names the gap.", "RC:79", "snapshot.repaired", "gap|gapRange"),
    (
        "R120",
        "A process has its command, its directory and its permission.",
        "EE:31",
        "process.started",
        "command|safeCommand|commandSummary cwd permissionDecision|permission|policy",
    ),
    (
        "R133",
        "A channel has its transport, the role of its peer and its capabilities.",
        "RC:12",
        "channel.connected",
        "transport peerRole capabilities",
    ),
    (
        "R137",
        "A permission from a channel has the peer, the side that decided, and the answer.",
        "RC:54",
        "channel.permission_returned",
        "peer|peerRef|accountRef decidedBy|decisionSource decision|response",
    ),
    (
        "R131.4",
        "A failed job item has its attempts, its error and whether a retry makes sense.",
        "SJ:24",
        "job.item.failed",
        "attemptCount lastError retryable|retryability",
    ),
    (
        "R123.2",
        "The profile of a task has its kind and its source.",
        "MR:14",
        "task.profile.resolved",
        "kind|taskKind source",
    ),
    (
        "R094",
        "A spilled output has its size and its media type.",
        "OS:12",
        "output.spilled",
        "sizeBytes|bytes mediaType",
    ),
    ("R097", "A truncated output names the policy.", "OS:16", "output.truncated", "truncation|policy"),
    (
        "R160.4",
        "A reward has its value or a reference.",
        "BI:24",
        "benchmark.reward.recorded",
        "reward|value|rewardRef",
    ),
    (
        "R183",
        "A comparison has the deltas, the completeness of evidence and the regressions.",
        "AS:84",
        "benchmark.comparison.completed",
        "meanRewardDelta evidenceCompletenessRate p0QcGateRegressionCount",
    ),
    (
        "R070",
        "A task of a peer has its protocol, its id there and its agent.",
        "TASK:136",
        "channel.peer_task.linked",
        "nativeProtocol|protocol remoteTaskId remoteAgentRef|agentCardRef|agent",
    ),
    (
        "R130",
        "A job has its status, its instruction and its items or inputs.",
        "SJ:22",
        "job.created",
        "status instruction|instructionRef items|itemCount|itemCursor|inputRefs",
    ),
    (
        "R123.3",
        "A fallback has the model before it, the model after it, and the reason.",
        "MR:22",
        "routing.fallback.applied",
        "from|fromModel|requestedModel to|toModel|selectedModel reason|decisionReason",
    ),
    (
        "R123.4",
        "A routing that is not possible has its reason.",
        "MR:22",
        "routing.not_possible",
        "reason|decisionReason|capabilityGap",
    ),
    ("X11", "A limit that changed has its state.", "SPEC:141", "limit.changed", "limitState|limitEvent|state"),
    ("X12", "A warning and an error have a category.", "SPEC:142", "runtime.warning runtime.error", "category"),
    ("X13", "The end of a subagent has its status.", "SJ:14", "subagent.completed subagent.failed", "status"),
    (
        "X14",
        "An artifact that changed is in the event or in a reference.",
        "RES:42",
        "artifact.changed",
        "artifact|readRef|versionId|previewRef|diffRef|outputRef",
    ),
    (
        "X15",
        "A model request names the provider and the model.",
        "TC:57",
        "model.requested",
        "model|selectedModel|requestedModel provider|selectedProvider|requestedProvider",
    ),
    ("X16", "A rate limit names who set it.", "MR:28", "rate_limit.hit", "source|provider|limitedBy|limitEvent"),
    ("X17", "The status of a run has a phase, a status or a title.", "SPEC:134", "run.status", "phase|status|title"),
    (
        "X18",
        "Evidence that changed has a reference or an outcome.",
        "RES:46",
        "evidence.changed",
        "packRef|traceRef|replayRef|reviewRef|readRef|evidenceRef|verificationOutcomes",
    ),
    (
        "X20",
        "The status of a peer's task has the peer's word for it.",
        "TASK:136",
        "channel.peer_task.updated",
        "nativeStatus|remoteStatus",
    ),
)

RULES = RuleSet()


def _declare(rule_id: str, sentence: str, source: str, types: str, fields: str) -> None:
    needed = [each.split("|") for each in fields.split()]

    @RULES.rule(rule_id, sentence, source, *types.split())
    def check_fields(event: Event, log: LogState) -> Outcome:
        missing = [" or ".join(names[:3]) for names in needed if not _has(event, names)]
        return f"without {' and '.join(missing)}" if missing else HOLDS


def _has(event: Event, names: list[str]) -> bool:
    """Whether the event, or a typed object beside its payload, has one of the fields. 0 and false are values."""
    record, payload = event.record, event.payload
    inside = [each for each in record.values() if isinstance(each, dict)]
    return any(place.get(name) not in (None, "") for place in (payload, record, *inside) for name in names)


for _row in _ROWS:
    _declare(*_row)


_ENTRY_FIELDS: Final = (
    ("toolName", "tool_name", "name"),
    ("description",),
    ("inputSchema", "input_schema", "inputSchemaRef"),
    ("policy",),
    ("runtimeOwner", "runtime_owner"),
)
_ENTRY_FLAGS: Final = (
    ("isReadOnly", "is_read_only"),
    ("isConcurrencySafe", "is_concurrency_safe"),
    ("isDestructive", "is_destructive"),
    ("interruptBehavior", "interrupt_behavior"),
)


@RULES.rule(
    "R086",
    "Each tool of an inventory has its name, description, schema, policy and owner.",
    "TC:12",
    "tool.catalog.resolved",
)
def check_inventory(event: Event, log: LogState) -> Outcome:
    return _missing_in_tools(event, _ENTRY_FIELDS)


@RULES.rule("R087", "Each tool of an inventory has the four flags of its effects.", "TC:72", "tool.catalog.resolved")
def check_flags(event: Event, log: LogState) -> Outcome:
    return _missing_in_tools(event, _ENTRY_FLAGS)


def _missing_in_tools(event: Event, fields: tuple[tuple[str, ...], ...]) -> Outcome:
    tools = event.payload.get("tools")
    if not isinstance(tools, list) or not tools:
        return None
    for place, tool in enumerate(tools):
        entry = tool if isinstance(tool, dict) else {}
        missing = [names[0] for names in fields if all(entry.get(name) is None for name in names)]
        if missing:
            return f"tool {place + 1} without {' and '.join(missing)}"
    return HOLDS


@RULES.rule("R124", "The number of candidates is that of the listed ones.", "MR:18", "routing.candidates.resolved")
def check_candidates(event: Event, log: LogState) -> Outcome:
    inside = event.record.get("candidateModelSet")
    found = inside if isinstance(inside, dict) else event.payload
    candidates = found.get("candidates")
    count = len(candidates) if isinstance(candidates, list) else None
    return (
        HOLDS
        if count is not None and found.get("candidateCount", count) == count
        else "candidates and candidateCount differ"
    )
