"""Approvals as records: an index of the approvals in the logs, by state."""

from dataclasses import dataclass, field, replace

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.action import ApprovalState
from protolink_grpc.storage.records import Kind, Page, Records, page_of


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
