"""A2A's operations over the runtime. A binding reads a request, calls an operation and writes its result as the response.

Each method is an A2A operation; `push` and `cards` have those about webhooks and cards. Nothing is stored here: a task, its session
and its history are computed from the task's log. A2A requires that the tasks of other callers appear as not found, so every
operation is limited to the tasks of its caller.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from protolink_grpc.a2a.agent_cards import AgentCards
from protolink_grpc.a2a.approvals import DECISION_TYPE, answer_check, find_decision, may_not_answer, read_updates
from protolink_grpc.a2a.attempts import find_attempt, first_sequence, shown_id
from protolink_grpc.a2a.content import PART_MEDIA_TYPE
from protolink_grpc.a2a.listing import check_history_length, page_of
from protolink_grpc.a2a.negotiation import check_media_types, owner_of_request, require_id
from protolink_grpc.a2a.options import A2AOptions
from protolink_grpc.a2a.push_operations import PushOperations, require_first_attempt
from protolink_grpc.a2a.request_metadata import choose_request_id, split_metadata
from protolink_grpc.a2a.values import (
    A2A_KEY,
    V03,
    Binding,
    CallerInfo,
    ListParams,
    MessageReply,
    SendParams,
    StatusUpdate,
    TaskView,
    TaskViewPage,
    Update,
)
from protolink_grpc.a2a.views import ANSWERS, MayAnswer, Updates, reply_of, view_of
from protolink_grpc.auth.rules import Admission
from protolink_grpc.errors import (
    ApprovalNotFoundError,
    InvalidArgumentError,
    TaskAlreadyRunningError,
    TaskFinishedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.ids import new_message_id
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.push_config import PushConfig
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.models.watch import StopAt
from protolink_grpc.runtime.actions.approvals import Approvals
from protolink_grpc.runtime.admission import AcceptedTurn
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.runtime.submission import Submission
from protolink_grpc.runtime.watch import check_position
from protolink_grpc.wire.events import is_final, replay, sequence_of, settles

SET_PUSH = "/lf.a2a.v1.A2AService/CreateTaskPushNotificationConfig"
SET_PUSH_V03 = "/a2a.v1.A2AService/CreateTaskPushNotificationConfig"
RESPOND = "/plgrpc.v1.ControlService/RespondApproval"
"""Methods that a message can stand for. Access rules for these actions use these method names."""


class Operations:
    """The A2A operations of one agent.

    Args:
        card: Returns the agent's current card.
        bindings: Returns the bindings that the card lists.
        approvals: Who may answer approvals; None means that no A2A caller can answer one.
        access: Checks what a caller may do, by method. The binding has already checked the operation itself; this check covers
            the other methods that a message can stand for.
    """

    def __init__(
        self,
        service: TaskService,
        card: Callable[[], AgentCard],
        bindings: Callable[[], Sequence[Binding]],
        options: A2AOptions | None = None,
        *,
        approvals: Approvals | None = None,
        access: Admission | None = None,
    ) -> None:
        self.options = options or A2AOptions()
        self.cards = AgentCards(card, bindings, self.options)
        self.push = PushOperations(service, self.options, approvals)
        self._access = access
        self._service = service
        self._card = card
        self._approvals = approvals

    async def start(self) -> None:
        """Resume the pending notifications of earlier processes. Call after the service's own start. Raises StoreError."""
        await self.push.start()

    async def stop(self, grace_s: float = 5.0) -> None:
        """Send the due notifications, for `grace_s` seconds at most. Call after the service's stop."""
        await self.push.stop(grace_s)

    # -- sending ---------------------------------------------------------------------------------------------------------

    async def send(self, caller: CallerInfo, params: SendParams) -> TaskView | MessageReply:
        """Begin or continue a task. Return it at the end of the turn, or at once if the caller sets `return_immediately`.

        Raises:
            InvalidArgumentError: The request contradicts itself or the task.
            ContentTypeNotSupportedError: The card does not list the media type of a part.
            TaskNotFoundError: The task to continue is unknown or belongs to another caller.
            TaskFinishedError: The task has ended and accepts no more messages.
            TaskAlreadyRunningError: The task accepts no message at the moment.
            ResourceExhaustedError, UnavailableError, StoreError: See `TaskService.send`.
        """
        owner = owner_of_request(caller, params.tenant, self.options)
        submission, answered = await self._read_submission(caller, owner, params)
        service = self._service
        may_answer = answer_check(self._approvals, owner)
        if answered is None and params.push is None and not params.return_immediately and self._approvals is None:
            return self._response_of(await service.send(submission, owner), may_answer, params)
        waits = not params.return_immediately
        turn = await self._begin_turn(caller, owner, submission, answered, params.push, waits=waits)
        if params.return_immediately:
            return view_of(await service.get(turn.task_id, owner), may_answer, history=params.history_length)
        # Read before the flush: during the flush, the next turn of a task that waits for input may begin.
        response = self._response_of(await self._wait_settled(turn, owner), may_answer, params)
        await self.push.flush(turn.task_id)
        return response

    async def _begin_turn(
        self,
        caller: CallerInfo,
        owner: str,
        submission: Submission,
        answered: AcceptedTurn | None,
        push: PushConfig | None,
        *,
        waits: bool,
    ) -> AcceptedTurn:
        """Begin the turn of a request and register its webhook. If the caller disconnects, both are done or neither is."""
        if push is None:
            return answered or await self._service.submit(submission, owner, waits=waits)

        if not push.id and submission.request_id and caller.version != V03:
            push = replace(push, id=submission.request_id)  # a repeated request sets the same webhook again

        async def begin() -> AcceptedTurn:
            turn = answered or await self._service.submit(submission, owner, waits=waits)
            await self.push.add(caller, owner, turn.task_id, push, turn.after_sequence)
            return turn

        return await asyncio.shield(begin())

    def _response_of(self, fold: TaskFold, may_answer: MayAnswer, params: SendParams) -> TaskView | MessageReply:
        reply = reply_of(fold) if self.options.message_replies else None
        return reply or view_of(fold, may_answer, history=params.history_length)

    async def _wait_settled(self, turn: AcceptedTurn, owner: str) -> TaskFold:
        """Return the task when its turn has ended or when it waits for an approval."""
        if self._approvals is None:
            return await self._service.settled(turn)
        end = asyncio.ensure_future(self._service.settled(turn))
        question = asyncio.ensure_future(self._wait_for_approval(turn.task_id, owner))
        try:
            await asyncio.wait({end, question}, return_when=asyncio.FIRST_COMPLETED)
            if end.done() or question.exception() is not None:
                return await end  # an error while looking for an approval does not end the wait for the turn
            return question.result()
        finally:
            for each in (end, question):
                each.cancel()
            await asyncio.wait({end, question})

    async def _wait_for_approval(self, task_id: str, owner: str) -> TaskFold:
        """Return the task when it waits for an approval of any kind, or has ended."""
        while True:
            fold = await self._service.get(task_id, owner)
            # INTERRUPTED is no reason to return: a task that waits for its caller may have got its input and wait for a slot.
            if fold.pending_approvals or fold.is_terminal:
                return fold
            updates = Updates(task_id, "", may_not_answer)
            async with aclosing(self._service.watch(task_id, owner, after=fold.sequence)) as batches:
                async for frames in batches:
                    updates.read(frames)
                    if updates.waits_for_approval:
                        break  # read the task again: the approval may have been answered already

    async def stream(self, caller: CallerInfo, params: SendParams) -> AsyncGenerator[list[Update], None]:
        """Begin or continue a task and stream it: first the task, then its updates, until the turn ends. Raises like `send`."""
        self._check_streaming()
        owner = owner_of_request(caller, params.tenant, self.options)
        submission, answered = await self._read_submission(caller, owner, params)
        turn = await self._begin_turn(caller, owner, submission, answered, params.push, waits=True)
        async with aclosing(self._stream_turn(turn, owner, params)) as batches:
            async for updates in batches:
                yield updates
        await self.push.flush(turn.task_id)

    async def _stream_turn(
        self, turn: AcceptedTurn, owner: str, params: SendParams
    ) -> AsyncGenerator[list[Update], None]:
        may_answer, task_id = answer_check(self._approvals, owner), turn.task_id
        fold, after = TaskFold(task_id), turn.after_sequence
        if after:
            fold = await self._service.get(task_id, owner)
            after = fold.sequence
            task_id = shown_id(fold)
            yield [view_of(fold, may_answer, history=params.history_length)]
            if fold.is_settled and await self._has_ended(turn, owner, after):
                return
        updates = Updates(task_id, fold.session_id, may_answer, after)
        held: list[Update] | None = [] if self.options.message_replies and not after else None
        watch = self._service.watch(turn.task_id, owner, after=after, stop_at=StopAt.INTERRUPTED)
        async with aclosing(watch) as batches:
            async for frames in batches:
                shown: list[Update] = []
                if not fold.sequence:
                    replay(fold, frames[:1])
                    updates = Updates(task_id, fold.session_id, may_answer, fold.sequence)
                    shown.append(view_of(fold, may_answer, history=params.history_length))
                    frames = frames[1:]  # noqa: PLW2901 -- the first frame is already in the view
                shown += await self._read_updates(updates, frames, turn.task_id)
                _mark_end(shown, updates)
                if held is not None:
                    held += shown
                    if not all(map(_is_plain_work, shown)):
                        shown, held = await self._choose_reply(turn.task_id, owner, held), None
                if held is None and shown:
                    yield shown
                if updates.waits_for_approval:
                    break
        if held:
            yield await self._choose_reply(turn.task_id, owner, held)

    async def _read_updates(self, updates: Updates, frames: Sequence[bytes], task_id: str) -> list[Update]:
        """Return the updates of these events. A message is held back for the next event only if the log has that event already."""
        shown = await read_updates(self._service, updates, frames)
        if updates.holds_message and await self._service.last_sequence(task_id) <= sequence_of(frames[-1]):
            shown += updates.release_message()
        return shown

    async def _has_ended(self, turn: AcceptedTurn, owner: str, sequence: int) -> bool:
        """Return whether the turn had ended at that position.

        The task's state does not tell: while a turn waits for a slot, the task is still settled by its previous turn.
        """
        position = turn.after_sequence
        watch = self._service.watch(turn.task_id, owner, after=position, stop_at=StopAt.CURRENT)
        async with aclosing(watch) as batches:
            async for frames in batches:
                for frame in frames:
                    position += 1
                    if position > sequence:
                        return False
                    if settles(frame):
                        return True
        return False

    async def _choose_reply(self, task_id: str, owner: str, held: list[Update]) -> list[Update]:
        """Return the handler's direct message reply if there is one, otherwise the updates that were held back."""
        reply = reply_of(await self._service.get(task_id, owner))
        return [reply] if reply is not None else held

    def _check_access(self, caller: CallerInfo, method: str) -> None:
        """Check that the caller may call `method`, which a message stands for. Raises PermissionDeniedError."""
        if self._access is not None:
            self._access(method, caller.principal)

    async def _read_submission(
        self, caller: CallerInfo, owner: str, params: SendParams
    ) -> tuple[Submission, AcceptedTurn | None]:
        """Return the submission of a request, and the turn that it continues, or None if a turn has to begin.

        A turn is continued when the message answers an approval, or when the request repeats an earlier one.
        """
        message = params.message
        check_media_types(message.parts, self._accepted_media_types())
        if params.push is not None:
            self._check_access(caller, SET_PUSH_V03 if caller.version == V03 else SET_PUSH)
            await self.push.check(params.push)
        metadata, context, request_id = split_metadata(params.metadata)
        request_id = choose_request_id(caller.idempotency_key, request_id)
        if params.accepted_output_modes:
            metadata = metadata | {A2A_KEY: {"accepted_output_modes": list(params.accepted_output_modes)}}
        submission = Submission(
            messages=[message],
            task_id=params.task_id,
            target=TaskTarget.CONTINUE if params.task_id else TaskTarget.CREATE,
            metadata=metadata,
            session_id=params.context_id,
            context=context,
            request_id=request_id,
            scopes=caller.principal.scopes,
        )
        if not params.task_id:
            return submission, None
        fold = await find_attempt(self._service, params.task_id, owner)
        submission.task_id = fold.task_id
        if params.push is not None:
            require_first_attempt(params.task_id, fold)
        if request_id and (known := await self._service.turn_of(request_id, owner)) is not None:
            return submission, known  # a repeated request: its message was processed already
        if params.context_id and params.context_id != fold.session_id:
            raise InvalidArgumentError(
                f"task {params.task_id} belongs to another context than {params.context_id}", field="message.contextId"
            )
        if fold.pending_approvals and not fold.is_settled:
            return submission, await self._answer_approval(caller, fold, message, owner)
        if fold.is_terminal:
            raise TaskFinishedError(
                f"task {params.task_id} is {fold.state}; send a new task instead",
                task_id=params.task_id,
                state=str(fold.state),
            )
        if message.id in fold.message_ids:
            # Some clients use the same id for another message. Ids in a log are unique, so the client's id goes into the metadata.
            own = dict(message.metadata or {})
            known = own.get(A2A_KEY)
            own[A2A_KEY] = {**(known if isinstance(known, dict) else {}), "message_id": message.id}
            submission.messages = [replace(message, id=new_message_id(), metadata=own)]
        return submission, None

    def _accepted_media_types(self) -> Sequence[str]:
        return [*self._card().input_formats, PART_MEDIA_TYPE]

    # -- approvals -------------------------------------------------------------------------------------------------------

    async def _answer_approval(self, caller: CallerInfo, fold: TaskFold, message: Message, owner: str) -> AcceptedTurn:
        """Answer the pending approval of a task with the decision in the message."""
        decision = find_decision(fold, message)
        if decision is None:
            raise TaskAlreadyRunningError(
                f"task {fold.task_id} waits for an approval: send {' or '.join(ANSWERS)}, or a data part of the type "
                f"{DECISION_TYPE}",
                task_id=fold.task_id,
                state=str(fold.state),
            )
        if decision.request_id not in fold.asked:
            raise ApprovalNotFoundError(
                f"task {fold.task_id} has no approval {decision.request_id}", approval_id=decision.request_id
            )
        self._check_access(caller, RESPOND)
        after = fold.sequence
        await self._service.approvals.respond(decision, owner, any_etag=True)
        return self._service.turn_after(fold.task_id, after)

    # -- reading ---------------------------------------------------------------------------------------------------------

    async def get(self, caller: CallerInfo, tenant: str, task_id: str, history_length: int | None = None) -> TaskView:
        """Return the current state of a task. Raises TaskNotFoundError if it is unknown or belongs to another caller."""
        owner = owner_of_request(caller, tenant, self.options)
        fold = await find_attempt(self._service, task_id, owner)
        return view_of(fold, answer_check(self._approvals, owner), history=check_history_length(history_length))

    async def list_tasks(self, caller: CallerInfo, params: ListParams) -> TaskViewPage:
        """Return one page of the caller's tasks, last changed first. Raises like `listing.page_of`."""
        owner = owner_of_request(caller, params.tenant, self.options)
        asks = self._approvals is not None
        return await page_of(self._service, owner, params, answer_check(self._approvals, owner), asks=asks)

    async def subscribe(
        self, caller: CallerInfo, tenant: str, task_id: str, after: int | None = None
    ) -> AsyncGenerator[list[Update], None]:
        """Stream the current task and then its updates, without a gap, until the task ends.

        Args:
            after: Last sequence that the caller has received from an earlier stream. The stream then has no snapshot and begins
                with the updates after that sequence.

        Raises:
            UnsupportedOperationError: The task has ended (checked only without `after`), or the agent does not stream.
            TaskNotFoundError: The task is unknown or belongs to another caller.
            SequenceOutOfRangeError: `after` is greater than the last sequence of the log.
        """
        self._check_streaming()
        owner = owner_of_request(caller, tenant, self.options)
        may_answer = answer_check(self._approvals, owner)
        if after is None:
            fold = await find_attempt(self._service, task_id, owner)
            if fold.state in TERMINAL:
                raise UnsupportedOperationError(f"task {task_id} has ended as {fold.state}", task_id=task_id)
            # The view and its sequence are from the same state, so the watch continues exactly after the snapshot.
            snapshot, session_id, after = view_of(fold, may_answer, history=None), fold.session_id, fold.sequence
            log_id = fold.task_id
            yield [snapshot]
        else:
            log_id, session_id, after, last = await self._find_position(require_id(task_id), owner, after)
            if after <= last:
                yield []  # starts the response at once, even if the task has no new events
            if after and await self._has_end_at(log_id, after):
                return  # what follows is a retry, which is another task
        updates = Updates(task_id, session_id, may_answer, after)
        async with aclosing(self._service.watch(log_id, owner, after=after, first_end=True)) as batches:
            async for frames in batches:
                if shown := await self._read_updates(updates, frames, log_id):
                    yield shown

    async def _find_position(self, task_id: str, owner: str, after: int) -> tuple[str, str, int, int]:
        """Return the ids of log and session for an id that A2A shows, `after` within the attempt, and the last sequence.

        Raises SequenceOutOfRangeError if `after` is beyond the end of the attempt.
        """
        try:
            head = await self._service.head(task_id, owner)
        except TaskNotFoundError:
            head = None  # perhaps the id of a retry
        if head is not None and head.epoch <= 1:
            # Never retried: the head is enough for the owner and the session, and the log is read once, by the watch.
            return task_id, head.session_id, after, head.sequence
        fold = await find_attempt(self._service, task_id, owner)
        if fold.is_terminal:  # the events that may follow belong to another attempt
            check_position(after, fold.sequence, task_id)
        return fold.task_id, fold.session_id, max(after, first_sequence(fold)), fold.sequence

    async def _has_end_at(self, task_id: str, sequence: int) -> bool:
        frames = await self._service.read_log(task_id, sequence - 1, 1)
        return bool(frames) and is_final(frames[0])

    # -- canceling --------------------------------------------------------------------------------------------------------

    async def cancel(
        self, caller: CallerInfo, tenant: str, task_id: str, metadata: dict[str, Any] | None = None
    ) -> TaskView:
        """Cancel a task and return its state afterwards.

        Raises:
            TaskNotFoundError: The task is unknown or belongs to another caller.
            TaskNotCancelableError: The task has ended in another state.
        """
        owner = owner_of_request(caller, tenant, self.options)
        reason = (metadata or {}).get("reason")
        attempt = await find_attempt(self._service, task_id, owner)
        if attempt.is_terminal and attempt.state is not TaskState.CANCELED:
            raise TaskNotCancelableError(
                f"task {task_id} is {attempt.state}", task_id=task_id, state=str(attempt.state)
            )
        fold = (
            attempt
            if attempt.is_terminal
            else await self._service.cancel(
                attempt.task_id, owner, reason=reason if isinstance(reason, str) else "", metadata=metadata or {}
            )
        )
        view = view_of(fold, answer_check(self._approvals, owner), history=None)
        await self.push.flush(task_id)
        return view

    def _check_streaming(self) -> None:
        if not self.options.streaming:
            raise UnsupportedOperationError("this agent does not stream")


def _mark_end(shown: Sequence[Update], updates: Updates) -> None:
    """Mark the update that ends the stream of a turn as final; v0.3 requires this mark."""
    last = shown[-1] if shown else None
    if isinstance(last, StatusUpdate) and (updates.waits_for_approval or last.status.state in INTERRUPTED):
        last.final = True


def _is_plain_work(update: Update) -> bool:
    """Return whether the update only shows that the task has begun, so that the response may still be a message."""
    if isinstance(update, TaskView | StatusUpdate):
        return update.status.state in (TaskState.SUBMITTED, TaskState.WORKING) and update.status.message is None
    return False
