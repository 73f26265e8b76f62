"""Formats snapshots as fields and tables. This module prints nothing."""

from collections.abc import Iterator, Sequence

from protolink_grpc.cli import session_text
from protolink_grpc.cli.describe import action_cell, clock, time_ago
from protolink_grpc.cli.session_text import state_cell
from protolink_grpc.cli.timeline import Table, amount
from protolink_grpc.models.action import Approval
from protolink_grpc.models.session import Turn
from protolink_grpc.models.snapshot import (
    ArtifactSummary,
    ContextBoundarySnapshot,
    EvidenceSnapshot,
    Gap,
    QueueSnapshot,
    SessionSnapshot,
    ThreadSnapshot,
    ToolInventorySnapshot,
)

Fields = list[tuple[str, str]]


def gap_fields(gaps: Sequence[Gap]) -> Fields:
    """Return the parts without a value: those with the same availability and reason on one line."""
    found: dict[tuple[str, str], list[str]] = {}
    for gap in gaps:
        found.setdefault((str(gap.availability), gap.reason), []).append(gap.part)
    return [
        (availability.capitalize(), ", ".join(parts) + (f" ({reason})" if reason else ""))
        for (availability, reason), parts in found.items()
    ]


# -- Sessions --------------------------------------------------------------------------------------------------------------


def session_fields(found: SessionSnapshot) -> Fields:
    return session_text.session_fields(found.session)


def session_tables(found: SessionSnapshot) -> Iterator[Table]:
    """Yield tables of the threads, the newest turns, the pending approvals and the newest artifacts."""
    rows: list[Sequence[str]] = [
        (
            each.thread.thread_id,
            str(each.status),
            str(len(each.active_turns)),
            str(len(each.queued_turns)),
            each.status_reason,
        )
        for each in found.threads
    ]
    yield "Threads", ("THREAD", "STATUS", "ACTIVE", "QUEUED", "REASON"), rows
    yield _turns(found.recent_turns)
    yield _approvals(found.pending_approvals)
    yield from artifact_tables(found.recent_artifacts, "Newest artifacts")


def thread_fields(found: ThreadSnapshot) -> Fields:
    thread = found.thread
    branch = f"{thread.from_thread_id} after turn {thread.from_turn_id}" if thread.from_thread_id else ""
    return [
        ("Session", found.session_id),
        ("Thread", thread.thread_id),
        ("Title", thread.title),
        ("Branch of", branch),
        ("Rollbacks", str(thread.rollback_count) if thread.rollback_count else ""),
        ("Status", str(found.status)),
        ("Reason", found.status_reason),
        ("Position", str(found.position)),
        ("Waits for input", "" if found.waiting_turn is None else f"turn {found.waiting_turn.turn_id}"),
        *([] if found.context is None else context_fields(found.context)[2:]),
    ]


def thread_tables(found: ThreadSnapshot) -> Iterator[Table]:
    """Yield tables of the open tasks, the newest turns, and the pending approvals."""
    rows: list[Sequence[str]] = [
        (each.task_id, str(each.status), str(each.attempt_count), each.status_reason) for each in found.open_tasks
    ]
    yield "Open tasks", ("TASK", "STATUS", "ATTEMPTS", "REASON"), rows
    yield _turns(found.recent_turns)
    yield _approvals(found.pending_approvals)


def _turns(turns: Sequence[Turn]) -> Table:
    rows: list[Sequence[str]] = [
        (
            each.turn_id,
            each.thread_id,
            time_ago(each.created_at or ""),
            state_cell(each),
        )
        for each in turns
    ]
    return "Newest turns", ("TURN", "THREAD", "SUBMITTED", "STATE"), rows


def _approvals(approvals: Sequence[Approval]) -> Table:
    rows: list[Sequence[str]] = [
        (each.approval_id, time_ago(each.request.created_at), action_cell(each.request.action)) for each in approvals
    ]
    return "Pending approvals", ("APPROVAL", "REQUESTED", "ACTION"), rows


def queue_fields(found: QueueSnapshot) -> Fields:
    queued = len(found.queued_turns)
    return [("Session", found.session_id), ("Position", str(found.position)), ("Queued turns", str(queued))]


def queue_tables(found: QueueSnapshot) -> Iterator[Table]:
    """Yield tables of the queued turns, and of what each queue waits for."""
    threads = {each.turn.thread_id for each in found.queued_turns}
    for thread_id in [each.thread_id for each in found.holds if each.thread_id in threads]:
        rows: list[Sequence[str]] = [
            (str(each.place), each.turn.turn_id, time_ago(each.turn.created_at or ""), each.preview)
            for each in found.queued_turns
            if each.turn.thread_id == thread_id
        ]
        yield f"Queue of thread {thread_id}", ("PLACE", "TURN", "SUBMITTED", "INPUT"), rows
    waits: list[Sequence[str]] = [
        (
            each.thread_id,
            ", ".join(turn.turn_id for turn in each.turns),
            "an answer" if each.waits_for_input else "its end",
        )
        for each in found.holds
    ]
    yield "Reasons to wait", ("THREAD", "TURN", "WAITS FOR"), waits


# -- Tools and tasks -------------------------------------------------------------------------------------------------------


def tool_tables(found: ToolInventorySnapshot) -> Iterator[Table]:
    rows: list[Sequence[str]] = [
        (
            each.tool.name,
            "depends" if each.tool.effect is None else str(each.tool.effect),
            each.runtime_owner,
            each.tool.description,
        )
        for each in found.tools
    ]
    yield "", ("TOOL", "POLICY", "OWNER", "DESCRIPTION"), rows


def context_fields(found: ContextBoundarySnapshot) -> Fields:
    """Return the fields of a context; the first two name the task and its sequence."""
    head = [("Task", found.task_id), ("Sequence", str(found.sequence))]
    manifest = found.manifest
    if manifest is None:
        return [*head, ("Model call", "none")]
    parts = (
        ("system", manifest.system_tokens - manifest.tool_prompt_tokens),
        ("tools", manifest.tool_prompt_tokens),
        ("history", manifest.history_tokens),
        ("user", manifest.user_tokens),
    )
    sizes = ", ".join(f"{name} {amount(count)}" for name, count in parts if count)
    return [
        *head,
        ("Model", " ".join(filter(None, (manifest.provider, manifest.model)))),
        ("Step", str(found.step)),
        ("Event", f"#{found.prepared_sequence}"),
        ("Tokens", f"{amount(manifest.total_estimated_tokens)} ({sizes})" if sizes else "0"),
        ("Window", "" if manifest.context_window is None else amount(manifest.context_window)),
        ("Tools", "" if found.offered is None else amount(len(found.offered.tools))),
        ("Left out", "" if found.omitted is None else amount(found.omitted.count)),
    ]


def context_tables(found: ContextBoundarySnapshot) -> Iterator[Table]:
    if found.omitted is not None and found.omitted.items:
        omitted: list[Sequence[str]] = [
            (each.kind, each.ref, each.reason, amount(each.tokens)) for each in found.omitted.items
        ]
        yield "Left out", ("KIND", "ID", "REASON", "TOKENS"), omitted
    rows: list[Sequence[str]] = [
        (
            f"#{each.sequence}",
            clock(each.created_at),
            amount(each.compacted.before_tokens),
            amount(each.compacted.after_tokens),
            each.compacted.strategy,
        )
        for each in found.compactions
    ]
    yield "Compactions", ("EVENT", "TIME", "BEFORE", "AFTER", "STRATEGY"), rows


def artifact_tables(artifacts: Sequence[ArtifactSummary], title: str = "Artifacts") -> Iterator[Table]:
    rows: list[Sequence[str]] = [
        (each.name or each.artifact_id, each.kind, f"{each.size:,}", each.preview or each.uri or each.media_type)
        for each in artifacts
    ]
    yield title, ("ARTIFACT", "KIND", "BYTES", "CONTENT"), rows


def evidence_fields(found: EvidenceSnapshot) -> Fields:
    answers = (
        ("granted", found.approvals_granted),
        ("denied", found.approvals_denied),
        ("expired", found.approvals_expired),
    )
    return [
        ("Task", found.task_id),
        ("Sequence", str(found.sequence)),
        ("Trace", found.trace_id),
        ("Runs", ", ".join(found.run_ids)),
        ("Approvals", ", ".join(f"{count} {name}" for name, count in answers if count)),
        ("Policy", ", ".join(f"{each.count} {each.effect}" for each in found.policy_decisions)),
    ]


def evidence_tables(found: EvidenceSnapshot) -> Iterator[Table]:
    rows: list[Sequence[str]] = [(each.kind, str(each.count), each.outcome or "not ended") for each in found.actions]
    yield "Actions", ("KIND", "COUNT", "OUTCOME"), rows
    yield "Evidence", ("TARGET", "REASON"), [(each.target, each.reason) for each in found.links]
