"""Approvals as records: an index of the questions in the logs, by where they stand. What an approval is lives in `models`."""

from dataclasses import dataclass, field, replace

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.action import ApprovalState
from protolink_grpc.storage.records import Kind, Page, Records, page_of


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    """Where an approval stands, what it asks, and where in its task's log its question and answer are.

    Args:
        principal: Owner of the task.
        create_micros: When it was asked for.
        ask_sequence: Event that asks.
        answer_sequence: Event that answers, or ends the task; 0 while it is pending.
        revision: Position among all changes of the agent's approvals, ascending. Set by the store.
        record: The encoded approval as it was asked for, in the append that asks. Empty in other rows: see `approval_record`.
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


def _merge(known: ApprovalRow, new: ApprovalRow) -> ApprovalRow:
    if known.task_id != new.task_id:
        raise InvalidArgumentError(
            f"{new.request_id} is the id of another approval", field="request.request_id", request_id=new.request_id
        )
    return replace(known, state=new.state, answer_sequence=new.answer_sequence)


APPROVALS = Kind(
    ApprovalRow,
    name="approvals",
    key=("agent_name", "request_id"),
    order=("create_micros", "request_id"),
    indexes=(("agent_name", "state", "create_micros", "request_id"), ("agent_name", "task_id")),
    lazy=("record",),
    task="task_id",
    watched=True,
    merge=_merge,
)


@dataclass(frozen=True, slots=True)
class ApprovalQuery:
    """Which approvals of an agent to list, oldest first. Empty filters match all; `after` is the cursor of the page before.

    Args:
        principal: Owner of their tasks; None means everybody.
    """

    agent_name: str = ""
    principal: str | None = None
    states: frozenset[ApprovalState] = frozenset()
    task_id: str = ""
    page_size: int = 50
    after: tuple[int, str] | None = None


def find_approvals(records: Records, query: ApprovalQuery) -> Page[ApprovalRow]:
    """One page of approvals."""
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
    """Approvals as they are now whose latest change has a revision > `after`, ascending by it, at most `limit`.

    Those up to `pending_until` only while they are pending: a reader that begins with the revision of that moment gets what
    waits, then what changes.
    """
    return records.changes(
        APPROVALS, agent_name, after, limit, where={"state": ApprovalState.PENDING}, until=pending_until
    )
