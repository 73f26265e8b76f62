"""Approvals as records: an index of the approvals in the logs, by state."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from protolink_grpc.errors import InvalidArgumentError, InvalidTransitionError
from protolink_grpc.models.action import Approval, ApprovalState
from protolink_grpc.models.clock import iso_from_micros
from protolink_grpc.models.events import ApprovalDecided, ApprovalRequired, Payload, TaskStatusChanged
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.lifecycle import TERMINAL
from protolink_grpc.storage.records import Kind, Page, Records, page_of
from protolink_grpc.wire.actions import approval_to_pb


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    """The state of an approval, and the position of its request and its answer in the task's log.

    Args:
        principal: Owner of the task.
        create_micros: Time of the request, microseconds since the epoch.
        ask_sequence: The event with the request.
        answer_sequence: The event that answers it or ends the task; 0 while it is pending.
        revision: Position among all changes of the agent's approvals, ascending. Set by the store.
        record: The encoded approval, in the append with the request. Empty in other rows: see `approval_record`.
    """

    request_id: str
    agent_name: str
    principal: str
    task_id: str
    state: ApprovalState
    create_micros: int
    ask_sequence: int
    answer_sequence: int = 0
    revision: int = 0
    record: bytes = field(default=b"", repr=False)


def _merge(existing: ApprovalRow, new: ApprovalRow) -> ApprovalRow:
    if existing.task_id != new.task_id:
        raise InvalidArgumentError(
            f"{new.request_id} is the id of another approval", field="request.request_id", request_id=new.request_id
        )
    return replace(existing, state=new.state, answer_sequence=new.answer_sequence)


APPROVALS = Kind(
    ApprovalRow,
    name="approvals",
    key=("agent_name", "request_id"),
    order=("create_micros", "request_id"),
    indexes=(("agent_name", "state", "create_micros", "request_id"), ("agent_name", "task_id")),
    lazy=("record",),
    task="task_id",
    home=lambda task: (task.agent_name,),
    watched=True,
    merge=_merge,
)


@dataclass(frozen=True, slots=True)
class ApprovalQuery:
    """Which approvals of an agent to list, oldest first. Empty filters match all; `after` is the cursor of the previous page.

    Args:
        principal: Owner of their tasks; None means any.
    """

    agent_name: str = ""
    principal: str | None = None
    states: frozenset[ApprovalState] = frozenset()
    task_id: str = ""
    page_size: int = 50
    after: tuple[int, str] | None = None


def find_approvals(records: Records, query: ApprovalQuery) -> Page[ApprovalRow]:
    """Read one page of approvals."""
    where: dict[str, object] = {"agent_name": query.agent_name}
    if query.states:
        where["state"] = query.states
    if query.principal is not None:
        where["principal"] = query.principal
    if query.task_id:
        where["task_id"] = query.task_id
    found = records.select(APPROVALS, where, after=query.after, limit=query.page_size + 1)
    return page_of(APPROVALS, found, query.page_size)


def changed_approvals(
    records: Records, agent_name: str, after: int, limit: int, *, pending_until: int = 0
) -> list[ApprovalRow]:
    """Read the current approvals whose latest change has a revision > `after`, ascending by revision, at most `limit`.

    Those with a revision up to `pending_until` are included only if they are pending: a reader that starts at that revision gets
    the pending approvals first, then the changes.
    """
    return records.changes(
        APPROVALS, agent_name, after, limit, where={"state": ApprovalState.PENDING}, until=pending_until
    )


def _encode_request(required: ApprovalRequired, task_id: str, run_id: str, micros: int) -> bytes:
    """Return the encoded approval with its whole action. The log only has a reference to the action."""
    asked = required.request
    request = replace(asked, task_id=task_id, run_id=asked.run_id or run_id, created_at=iso_from_micros(micros))
    return approval_to_pb(Approval(request, fingerprint=required.etag)).SerializeToString()


def approval_rows(
    fold: TaskFold, agent_name: str, payloads: Sequence[Payload | dict[str, Any]], micros: int, run_id: str = ""
) -> list[ApprovalRow]:
    """Return the rows of the approvals that the payloads, appended at `micros`, request, answer or withdraw.

    Raises:
        InvalidTransitionError: A payload answers an approval that is not pending.
        InvalidArgumentError: A request has no id, or the id of an earlier request.
    """
    asked, rows, sequence = dict(fold.asked), dict[str, ApprovalRow](), fold.sequence
    records: dict[str, bytes] = {}

    def put(request_id: str, state: ApprovalState, answered: int) -> None:
        ask, since = asked[request_id]
        rows[request_id] = ApprovalRow(
            request_id,
            agent_name,
            fold.principal,
            fold.task_id,
            state,
            since,
            ask,
            answered,
            record=records.get(request_id, b""),
        )

    for payload in payloads:
        sequence += 1
        match payload:
            case ApprovalRequired(request=request):
                if not request.request_id.strip() or request.request_id in {*asked, *rows, *fold.decided}:
                    raise InvalidArgumentError("must be new and not empty", field="request.request_id")
                asked[request.request_id] = (sequence, micros)
                records[request.request_id] = _encode_request(payload, fold.task_id, run_id, micros)
                put(request.request_id, ApprovalState.PENDING, 0)
            case ApprovalDecided(decision=decision):
                if decision.request_id not in asked:
                    raise InvalidTransitionError(
                        f"no approval {decision.request_id} waits for an answer", approval_id=decision.request_id
                    )
                put(decision.request_id, decision.state, sequence)
                del asked[decision.request_id]
            case TaskStatusChanged(new_state=state) if state in TERMINAL:
                for request_id in asked:
                    put(request_id, ApprovalState.WITHDRAWN, sequence)
    return list(rows.values())
