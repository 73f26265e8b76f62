"""ListTasks: a page of a caller's tasks, filtered by the states that A2A shows.

The store filters by the stored state. A task that waits for an approval is stored as working, but A2A shows it as waiting. So a
list by one of these states reads the pending approvals, too.
"""

import asyncio
from dataclasses import replace

from protolink_grpc.a2a.attempts import latest_attempt
from protolink_grpc.a2a.values import MAX_PAGE_SIZE, PAGE_SIZE, ListParams, TaskViewPage
from protolink_grpc.a2a.views import MayAnswer, head_view, view_of
from protolink_grpc.errors import InvalidArgumentError, TaskNotFoundError
from protolink_grpc.models.action import ApprovalState
from protolink_grpc.models.lifecycle import INTERRUPTED, TaskState
from protolink_grpc.net.page_tokens import cursor_from_token, token_from_cursor
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.storage.approvals import ApprovalQuery
from protolink_grpc.storage.port import TaskHead, TaskQuery

SCANS = 20
"""Maximum number of store pages that one list reads. At this limit, the result may be a short page that has a next one."""

WAITING_PAGE = 100
"""Number of pending approvals that a list by state reads at a time."""

_DEPENDENT_STATES = frozenset({TaskState.WORKING, TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED})
"""The stored state of a task that waits for an approval, and the states that A2A shows for it."""

Found = tuple[list[TaskHead], tuple[int, str] | None, int]
"""Heads, the cursor of the next page, and the total number on all pages."""


async def page_of(
    service: TaskService, owner: str, params: ListParams, may_answer: MayAnswer, *, asks: bool
) -> TaskViewPage:
    """Return one page of an owner's tasks, last changed first. Of a task that was retried it has the latest attempt.

    Args:
        asks: Whether tasks of this agent may wait for an approval.

    Raises:
        InvalidArgumentError: A page size outside 1 to 100, an invalid token, or a negative history length.
    """
    size = PAGE_SIZE if params.page_size is None else params.page_size
    if not 1 <= size <= MAX_PAGE_SIZE:
        raise InvalidArgumentError(f"must be 1 to {MAX_PAGE_SIZE}", field="pageSize")
    length = check_history_length(params.history_length)
    query = TaskQuery(
        principal=owner,
        agent_name=service.agent_name,
        states=frozenset() if params.state is None else frozenset({params.state}),
        session_id=params.context_id,
        updated_after_micros=params.updated_after_micros,
        page_size=size,
        after=parse_page_token(params.page_token),
        include_total=True,
    )
    if asks and params.state in _DEPENDENT_STATES:
        heads, following, total = await _find_by_shown_state(service, params.state, query, may_answer)
    else:
        page = await service.find(query)
        heads, following, total = page.heads, page.next, page.total or 0
    whole = bool(length) or params.include_artifacts
    views = []
    for head in heads:
        # A head does not show whether the task was retried. A task that was never taken over was not.
        is_first = head.epoch <= 1
        if is_first and not whole and not asks and head.state not in INTERRUPTED:
            views.append(head_view(head))
            continue
        await asyncio.sleep(0)  # a page of long tasks must not block other requests
        try:
            fold = await latest_attempt(service, head.task_id, owner)
        except TaskNotFoundError:
            continue  # deleted in the meantime
        if fold.sequence < head.sequence and params.state not in (None, fold.state):
            continue  # the state in the head is that of a retry that is not shown
        views.append(view_of(fold, may_answer, history=length or 0, artifacts=params.include_artifacts))
    return TaskViewPage(views, token_from_cursor(following), size, total)


async def _find_by_shown_state(
    service: TaskService, state: TaskState, query: TaskQuery, may_answer: MayAnswer
) -> Found:
    """Find tasks by a state that depends on approvals: a working task that waits for one is shown in another state."""
    waiting = await _find_waiting(service, query, may_answer)
    query = replace(query, states=query.states | {TaskState.WORKING})
    heads: list[TaskHead] = []
    after, total = query.after, 0
    for scan in range(SCANS):
        page = await service.find(replace(query, after=after, include_total=scan == 0))
        if scan == 0:
            total = (page.total or 0) - await _count_others(service, state, query, waiting)
        for head in page.heads:
            after = (head.update_micros, head.task_id)
            if waiting.get(head.task_id, head.state) is state:
                heads.append(head)
            if len(heads) == query.page_size:
                return heads, after, total
        if page.next is None:
            return heads, None, total
    return heads, after, total


async def _find_waiting(service: TaskService, query: TaskQuery, may_answer: MayAnswer) -> dict[str, TaskState]:
    """Return the caller's tasks that wait for an approval, with the states that A2A shows for them."""
    pending = frozenset({ApprovalState.PENDING})
    wanted = ApprovalQuery(query.agent_name, query.principal, pending, page_size=WAITING_PAGE)
    found: dict[str, TaskState] = {}
    while True:
        page = await service.approvals.find(wanted)
        for task_id in dict.fromkeys(row.task_id for row in page.records):
            if task_id in found:
                continue
            try:
                fold = await service.get(task_id, query.principal)
            except TaskNotFoundError:
                continue  # deleted in the meantime
            found[task_id] = view_of(fold, may_answer, history=0, artifacts=False).status.state
        if page.next is None:
            return found
        wanted = replace(wanted, after=page.next)


async def _count_others(service: TaskService, state: TaskState, query: TaskQuery, waiting: dict[str, TaskState]) -> int:
    """Return how many of the tasks that the query finds are shown in another state."""
    if state is TaskState.WORKING:
        return sum(shown is not state for shown in waiting.values())
    working = await service.find(replace(query, states=frozenset({TaskState.WORKING}), page_size=1, after=None))
    return max(0, (working.total or 0) - sum(shown is state for shown in waiting.values()))


def check_history_length(value: int | None) -> int | None:
    """Return a history length. Raises InvalidArgumentError if it is negative."""
    if value is not None and value < 0:
        raise InvalidArgumentError("must not be negative", field="historyLength")
    return value


def parse_page_token(token: str) -> tuple[int, str] | None:
    """Return the cursor in a page token. Raises InvalidArgumentError if the token is invalid."""
    try:
        return cursor_from_token(token)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(error.detail, field="pageToken") from None
