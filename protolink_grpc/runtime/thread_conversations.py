"""The conversation of a thread: that of its session, one of its own, or a branch of another one after a rollback.

A branch is made when its first run reads it. The session's log says what it has, so a crash before that loses nothing.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from protolink_grpc.errors import UnimplementedError, UnsupportedOperationError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.session import DEFAULT_THREAD, is_of_turn
from protolink_grpc.runtime.run import Run
from protolink_grpc.storage.records import Records
from protolink_grpc.storage.session_queries import Branch, find_branch, turns_left_out
from protolink_grpc.storage.session_rows import HEADS, SessionHead, owner_of

log = get_logger(__name__)


class Branches(Protocol):
    """The conversations of one principal, as far as branches need them."""

    async def exists(self, session_id: str, /) -> bool: ...

    async def branch(self, source_id: str, session_id: str, leaves_out: Callable[[str], bool], /) -> bool: ...


async def open_conversation(run: Run, conversations: Branches) -> str:
    """Return the id of the conversation that the models of a run see, and make it if it is a branch that does not exist.

    It begins empty, with a warning in the agent's log, if turns that it must not have were compacted together with others, or if
    the storage has no branches.
    """
    if not run.opened_conversation:
        # Only now, because parts of the run that work at the same time must not use a conversation that is not complete.
        run.opened_conversation = await _make_conversation(run, conversations)
    return run.opened_conversation


async def _make_conversation(run: Run, conversations: Branches) -> str:
    fold, store = run.live.fold, run.live.store
    if fold.session_id == fold.task_id:
        return run.conversation_id
    owner = owner_of(run.agent_name, fold.principal)

    def query(records: Records) -> tuple[SessionHead, Branch] | None:
        head = records.get(HEADS, owner, fold.session_id)
        branch = None if head is None else find_branch(records, head, fold.thread_id or DEFAULT_THREAD)
        return None if head is None or branch is None else (head, branch)

    found = await store.view(query)
    if found is None:
        return run.conversation_id
    head, newest = found
    missing: list[Branch] = []
    branch: Branch | None = newest
    while branch is not None and not await conversations.exists(branch.conversation_id):
        missing.append(branch)
        branch = await store.view(partial(_find_source, head, branch))
    for branch in reversed(missing):
        left_out = await store.view(partial(turns_left_out, head=head, branch=branch))
        try:
            await conversations.branch(branch.source_id, branch.conversation_id, partial(is_of_turn, turns=left_out))
        except (UnsupportedOperationError, UnimplementedError) as error:
            name = fold.thread_id or DEFAULT_THREAD
            log.warning("thread %s of session %s begins with an empty conversation: %s", name, fold.session_id, error)
    return newest.conversation_id


def _find_source(head: SessionHead, branch: Branch, records: Records) -> Branch | None:
    return find_branch(records, head, branch.thread_id, branch.number)
