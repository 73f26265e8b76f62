"""`approvals list`, `approvals show`, `approvals approve`, `approvals deny`."""

from collections.abc import Sequence
from typing import Any

from protolink_grpc.cli import output
from protolink_grpc.cli.connect import QUICK_S, agent_client, run, url_of
from protolink_grpc.cli.describe import action_cell, part_text, time_ago, time_left
from protolink_grpc.cli.failure import CommandError, usage_error
from protolink_grpc.cli.settings import Settings
from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.client.port import ApprovalAnswer, ApprovalList
from protolink_grpc.errors import ApprovalNotFoundError, InvalidArgumentError
from protolink_grpc.models.action import Approval, ApprovalState
from protolink_grpc.models.json_value import from_json

ARGUMENTS_KEY = "arguments"
"""The key of a tool call's payload with the arguments of the tool. Other actions have their arguments at the top level."""


def list_approvals(  # noqa: PLR0917 -- one per option
    settings: Settings, agent: str, states: Sequence[str], task_id: str, limit: int, page_token: str
) -> None:
    """Print one page, oldest first."""

    async def work() -> ApprovalList:
        return await agent_client(settings, QUICK_S).list_approvals(
            await url_of(settings, agent), states=states, task_id=task_id, page_size=limit, page_token=page_token
        )

    page = run(work(), agent)
    if settings.json:
        found = [approval.to_dict() for approval in page.approvals]
        output.document({"approvals": found, "next_page_token": page.next_page_token})
        return
    output.columns_with_values(
        ("APPROVAL", "STATE", "REQUESTED", "EXPIRES", "ACTION"), [_row(approval) for approval in page.approvals]
    )
    if page.next_page_token:
        output.note("hint", f"there are more; the next page: --page-token {page.next_page_token}")
    elif any(each.state is ApprovalState.PENDING for each in page.approvals):
        output.note("hint", f"show one with: {settings.command('approvals show', agent, 'APPROVAL')}")


def _row(approval: Approval) -> tuple[str, ...]:
    request = approval.request
    return (
        request.request_id,
        str(approval.state),
        time_ago(request.created_at),
        _expiry(approval),
        action_cell(request.action),
    )


async def _fetch(client: AgentClient, url: str, approval_id: str) -> Approval:
    """Fetch the approval with that id. Raises ApprovalNotFoundError."""
    # Pending ones first: there are few of them, and most lookups are for one of these.
    for states in ([ApprovalState.PENDING], [each for each in ApprovalState if each is not ApprovalState.PENDING]):
        token = ""
        while True:
            page = await client.list_approvals(url, states=states, page_size=1000, page_token=token)
            for approval in page.approvals:
                if approval.approval_id == approval_id:
                    return approval
            token = page.next_page_token
            if not token:
                break
    raise ApprovalNotFoundError(f"approval {approval_id} does not exist", approval_id=approval_id)


def show(settings: Settings, agent: str, approval_id: str) -> None:
    """Print one approval: its fields, the arguments of the action, and the preview."""

    async def work() -> Approval:
        return await _fetch(agent_client(settings, QUICK_S), await url_of(settings, agent), approval_id)

    approval = run(work(), agent)
    if settings.json:
        output.document(approval.to_dict())
        return
    show_approval(approval)
    if approval.state is ApprovalState.PENDING:
        etag = ("--etag", approval.etag)
        for verb in ("approve", "deny"):
            output.note("hint", f"{verb} it with: {settings.command(f'approvals {verb}', agent, approval_id, *etag)}")


def show_approval(approval: Approval) -> None:
    """Print an approval as text."""
    request, decision = approval.request, approval.decision
    action, policy = request.action, request.policy_decision
    left, is_pending = _expiry(approval), approval.state is ApprovalState.PENDING
    fields = [
        ("Approval", request.request_id),
        ("State", str(approval.state)),
        ("Action", f"{action.kind} {action.name}"),
        ("Description", action.description),
        ("Capabilities", ", ".join(sorted(action.capabilities))),
        ("Policy", policy.policy_name),
        ("Reason", policy.reason),
        ("Note", str(request.metadata.get("reason", ""))),
        ("Task", request.task_id),
        ("Run", request.run_id or ""),
        ("Requested", f"{request.created_at} ({time_ago(request.created_at)})"),
        ("Expires", f"{request.expires_at} ({left})" if left else request.expires_at or ""),
        ("Editable", "yes, with --edit and all arguments" if request.editable and is_pending else ""),
        ("Etag", approval.etag),
    ]
    if decision is not None:
        fields += [
            ("Decided by", decision.decided_by),
            ("Decided", f"{decision.decided_at} ({time_ago(decision.decided_at)})"),
            ("Answer", decision.reason),
        ]
    for label, value in fields:
        output.field(label, value)
    if decision is not None and decision.edited_arguments is not None:
        output.block("Edited arguments", output.pretty(decision.edited_arguments))
    output.block("Arguments", output.pretty(action.payload.get(ARGUMENTS_KEY, action.payload)))
    for artifact in action.artifacts:
        title = output.one_line(artifact.name or artifact.kind)
        output.block(f"Preview {title}", "\n".join(part_text(part) for part in artifact.parts))


def respond(
    settings: Settings,
    agent: str,
    approval_id: str,
    *,
    approved: bool,
    reason: str = "",
    edit: str | None = None,
    etag: str = "",
) -> None:
    """Answer an approval and print it.

    Args:
        etag: Etag of the approval that was reviewed; empty approves its current version.

    Raises:
        CommandError: The approval already has another answer.
    """
    edited = None if edit is None else _arguments(edit)

    async def work() -> ApprovalAnswer:
        client, url = agent_client(settings, QUICK_S), await url_of(settings, agent)
        reviewed = etag
        if approved and not reviewed:
            reviewed = (await _fetch(client, url, approval_id)).etag
        return await client.respond_approval(
            url, approval_id, approved, reason=reason, edited_arguments=edited, etag=reviewed
        )

    answer = run(work(), agent)
    approval = answer.approval
    if settings.json:
        output.document({"approval": approval.to_dict(), "already_decided": answer.already_decided})
    else:
        show_approval(approval)
    if not answer.already_decided:
        return
    if approval.state is not (ApprovalState.APPROVED if approved else ApprovalState.DENIED):
        raise CommandError(
            f"approval {approval_id} is already {approval.state}; the answer has no effect",
            code="ALREADY_DECIDED",
            metadata={"approval_id": approval_id, "state": str(approval.state)},
        )
    output.note("note", f"the approval was already {approval.state}; the answer has no effect")


def _arguments(text: str) -> dict[str, Any]:
    hint = """quote it for the shell: --edit '{"nights": 5}'"""
    try:
        value = from_json(text)
    except InvalidArgumentError as error:
        raise usage_error(f"--edit {error.detail}", hint) from None
    if not isinstance(value, dict):
        raise usage_error("--edit must be a JSON object", hint)
    return value


def _expiry(approval: Approval) -> str:
    """Format when a pending approval expires; empty for others."""
    expires_at = approval.request.expires_at
    return "" if expires_at is None or approval.state is not ApprovalState.PENDING else time_left(expires_at)
