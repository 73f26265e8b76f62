"""The conversation of a thread: that of its session, one of its own, or a branch of another one after a rollback.

A branch is made when its first run reads it. The log of the session defines its content, so a crash before that loses nothing.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from protolink_grpc.errors import UnimplementedError, UnsupportedOperationError
from protolink_grpc.logs import get_logger
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.session import DEFAULT_THREAD, conversation_id, is_of_turn
from protolink_grpc.runtime.run import Run
from protolink_grpc.storage.records import Records, RecordStore
from protolink_grpc.storage.session_queries import Branch, find_branch, find_later_conversations, turns_left_out
from protolink_grpc.storage.session_rows import HEADS, SessionHead, owner_of

log = get_logger(__name__)


class Branches(Protocol):
    """The conversations of one principal, as far as threads need them."""

    async def exists(self, session_id: str, /) -> bool: ...

    async def branch(self, source_id: str, session_id: str, leaves_out: Callable[[str], bool], /) -> bool: ...

    async def remember(self, session_id: str, turn_id: str, messages: Sequence[LLMMessage], /) -> Any:
        """Add the messages of a turn, unless a turn with this id is already there."""
        ...


async def open_conversation(run: Run, conversations: Branches) -> str:
    """Return the id of the conversation that the models of a run see, and make it if it is a branch that does not exist."""
    if not run.opened_conversation:
        fold = run.live.fold
        # Only now, because parts of the run that work at the same time must not use a conversation that is not complete.
        run.opened_conversation = (
            run.conversation_id
            if fold.session_id == fold.task_id
            else await make_conversation(
                run.live.store, _owner_of(run), fold.session_id, fold.thread_id or DEFAULT_THREAD, conversations
            )
        )
    return run.opened_conversation


async def remember_turn(run: Run, conversations: Branches, turn_id: str, messages: Sequence[LLMMessage]) -> None:
    """Add the messages of a turn to the conversation of its thread.

    A rollback of another turn, which began later, may have made further conversations of the thread since the run opened its own.
    They get the messages too.
    """
    opened, fold = await open_conversation(run, conversations), run.live.fold
    await conversations.remember(opened, turn_id, messages)
    if fold.session_id == fold.task_id:
        return

    def query(records: Records) -> list[str]:
        head = records.get(HEADS, _owner_of(run), fold.session_id)
        return [] if head is None else find_later_conversations(records, head, run.task_id, opened)

    for each in await run.live.store.view(query):
        if not await conversations.exists(each):
            return  # it will be a copy of the one before
        await conversations.remember(each, turn_id, messages)


def _owner_of(run: Run) -> str:
    return owner_of(run.agent_name, run.live.fold.principal)


async def make_conversation(
    store: RecordStore, owner: str, session_id: str, thread_id: str, conversations: Branches
) -> str:
    """Return the id of the current conversation of a thread, and make it if it is a branch that does not exist.

    It begins empty, with a warning in the agent's log, if turns that it must not have were compacted together with others, or if
    the storage has no branches.
    """

    def query(records: Records) -> tuple[SessionHead, Branch] | None:
        head = records.get(HEADS, owner, session_id)
        branch = None if head is None else find_branch(records, head, thread_id)
        return None if head is None or branch is None else (head, branch)

    found = await store.view(query)
    if found is None:
        return conversation_id(session_id, thread_id)
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
            log.warning("thread %s of session %s begins with an empty conversation: %s", thread_id, session_id, error)
    return newest.conversation_id


def _find_source(head: SessionHead, branch: Branch, records: Records) -> Branch | None:
    return find_branch(records, head, branch.thread_id, branch.number)
