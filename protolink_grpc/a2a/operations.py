"""A2A's operations over the runtime. A binding reads a request, calls an operation and writes its result as the response.

Each method is an A2A operation. This module stores nothing: a task, its session and its history are computed from the task's log,
and a push config is a reader of that log. A2A requires that the tasks of other callers appear as not found, so every operation is
limited to the tasks of its caller.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from protolink_grpc.a2a.content import PART_MEDIA_TYPE
from protolink_grpc.a2a.json_codec import update_json
from protolink_grpc.a2a.listing import checked_length, cursor_of, page_of
from protolink_grpc.a2a.negotiation import check_extensions, check_media_types
from protolink_grpc.a2a.options import A2AOptions
from protolink_grpc.a2a.v03.writing import push_body_v03
from protolink_grpc.a2a.values import (
    A2A_KEY,
    MAX_PAGE_SIZE,
    OWN_KEY,
    PAGE_SIZE,
    V03,
    V1,
    Binding,
    CallerInfo,
    ListParams,
    MessageReply,
    PublicCard,
    PushPage,
    Rendered,
    SendParams,
    StatusUpdate,
    TaskPage,
    TaskView,
    Update,
)
from protolink_grpc.a2a.views import ANSWERS, APPROVAL_TYPE, MayAnswer, Updates, reply_of, view_of
from protolink_grpc.auth.principal import owner_of
from protolink_grpc.auth.rules import Admission
from protolink_grpc.errors import (
    ApprovalNotFoundError,
    ExtendedCardNotConfiguredError,
    InvalidArgumentError,
    PushNotSupportedError,
    TaskAlreadyRunningError,
    TaskNotFoundError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from protolink_grpc.models.action import ApprovalDecision, ApprovalRequest
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import CONTEXT_KEY, RunContext
from protolink_grpc.models.fold import TaskFold
from protolink_grpc.models.ids import new_message_id
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL, TaskState
from protolink_grpc.models.message import Message
from protolink_grpc.models.push_config import PushConfig
from protolink_grpc.models.task_target import TaskTarget
from protolink_grpc.models.watch import StopAt
from protolink_grpc.net.page_tokens import token_from_cursor
from protolink_grpc.runtime.actions.approvals import Approvals
from protolink_grpc.runtime.admission import Submission, Turn
from protolink_grpc.runtime.service import TaskService
from protolink_grpc.wire.events import asked_in, replay, sequence_of, settles
from protolink_grpc.wire.tasks import check_id

REQUEST_KEY = "request_id"
"""Key in the request metadata `{"plgrpc": {"run_context": {...}, "request_id": "..."}}`. `run_context` holds limits and
permissions that narrow the run; `request_id` replaces the header `Idempotency-Key` for clients that cannot set headers."""

DECISION_TYPE = "approval_decision"
"""Type of the data part that answers an approval: `{"request_id", "approved", "reason"}`."""

FLUSH_S = 1.0
"""How long a blocking response waits for due notifications, in seconds at most."""

SET_PUSH = "/lf.a2a.v1.A2AService/CreateTaskPushNotificationConfig"
SET_PUSH_V03 = "/a2a.v1.A2AService/CreateTaskPushNotificationConfig"
RESPOND = "/plgrpc.v1.ControlService/RespondApproval"
"""Methods that a message can stand for. Access rules for these actions use these method names."""

DEFAULT_CONFIG = "default"
"""Id of a push config that a v0.3 caller sets without an id."""

PIECE = 64
"""Number of events that are read from the log at a time for a webhook."""


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
        self._access = access
        self._service = service
        self._card = card
        self._bindings = bindings
        self._approvals = approvals
        self._webhooks: Any = None
        if self.options.push is not None:
            # Imported here: the push modules are a third of the code that A2A loads, and most agents send no notifications.
            from protolink_grpc.a2a.push import Webhooks

            self._webhooks = Webhooks(service, self.options.push, self._rendered)
        self._demands = tuple(each for each in self.options.extensions if each.required)

    async def start(self) -> None:
        """Resume the pending notifications of earlier processes. Call after the service's own start. Raises StoreError."""
        if self._webhooks is not None:
            await self._webhooks.start()

    async def stop(self, grace_s: float = 5.0) -> None:
        """Send the due notifications, for `grace_s` seconds at most. Call after the service's stop."""
        if self._webhooks is not None:
            await self._webhooks.stop(grace_s)

    # -- sending ---------------------------------------------------------------------------------------------------------

    async def send(self, caller: CallerInfo, params: SendParams) -> TaskView | MessageReply:
        """Begin or continue a task. Return it at the end of the turn, or at once if the caller sets `return_immediately`.

        Raises:
            InvalidArgumentError: The request contradicts itself or the task.
            ContentTypeNotSupportedError: The card does not list the media type of a part.
            TaskNotFoundError: The task to continue is unknown or belongs to another caller.
            TaskFinishedError: The task has ended and accepts no more messages.
            TaskAlreadyRunningError: The task accepts no message at the moment.
            ResourceExhaustedError, UnavailableError, StoreError: As `TaskService.send`.
        """
        owner = self._enter(caller, params.tenant)
        submission, answered = await self._submission(caller, owner, params)
        service = self._service
        may_answer = self._may_answer(owner)
        if answered is None and params.push is None and not params.return_immediately and self._approvals is None:
            return self._answer(await service.send(submission, owner), may_answer, params)
        waits = not params.return_immediately
        turn = await self._begun(caller, owner, submission, answered, params.push, waits=waits)
        if params.return_immediately:
            return view_of(await service.get(turn.task_id, owner), may_answer, history=params.history_length)
        # Read before the flush: during the flush, the next turn of a task that waits for input may begin.
        answer = self._answer(await self._settled(turn, owner), may_answer, params)
        if self._webhooks is not None:
            await self._webhooks.flush(turn.task_id, FLUSH_S)
        return answer

    async def _begun(
        self,
        caller: CallerInfo,
        owner: str,
        submission: Submission,
        answered: Turn | None,
        push: PushConfig | None,
        *,
        waits: bool,
    ) -> Turn:
        """Begin the turn of a request and register its webhook. If the caller disconnects, both are done or neither is."""
        if push is None:
            return answered or await self._service.submit(submission, owner, waits=waits)

        if not push.id and submission.request_id and caller.version != V03:
            push = replace(push, id=submission.request_id)  # a repeated request sets the same webhook again

        async def begin() -> Turn:
            turn = answered or await self._service.submit(submission, owner, waits=waits)
            await self._add_push(caller, owner, turn.task_id, push, turn.after_sequence)
            return turn

        return await asyncio.shield(begin())

    def _answer(self, fold: TaskFold, may_answer: MayAnswer, params: SendParams) -> TaskView | MessageReply:
        reply = reply_of(fold) if self.options.message_replies else None
        return reply or view_of(fold, may_answer, history=params.history_length)

    async def _settled(self, turn: Turn, owner: str) -> TaskFold:
        """Return the task when its turn has ended or when it waits for an approval."""
        if self._approvals is None:
            return await self._service.settled(turn)
        end = asyncio.ensure_future(self._service.settled(turn))
        question = asyncio.ensure_future(self._question(turn.task_id, owner))
        try:
            await asyncio.wait({end, question}, return_when=asyncio.FIRST_COMPLETED)
            if end.done() or question.exception() is not None:
                return await end  # an error while looking for an approval does not end the wait for the turn
            return question.result()
        finally:
            for each in (end, question):
                each.cancel()
            await asyncio.wait({end, question})

    async def _question(self, task_id: str, owner: str) -> TaskFold:
        """Return the task when it waits for an approval of any kind, or has ended."""
        while True:
            fold = await self._service.get(task_id, owner)
            # INTERRUPTED is no reason to return: a task that waits for its caller may have got its input and wait for a slot.
            if fold.pending_approvals or fold.is_terminal:
                return fold
            updates = Updates(task_id, "", _nobody)
            async with aclosing(self._service.watch(task_id, owner, after=fold.sequence)) as batches:
                async for frames in batches:
                    updates.read(frames)
                    if updates.waits:
                        break  # read the task again: the approval may have been answered already

    async def stream(self, caller: CallerInfo, params: SendParams) -> AsyncGenerator[list[Update], None]:
        """Begin or continue a task and stream it: first the task, then its updates, until the turn ends. Raises as `send`."""
        self._check_streaming()
        owner = self._enter(caller, params.tenant)
        submission, answered = await self._submission(caller, owner, params)
        turn = await self._begun(caller, owner, submission, answered, params.push, waits=True)
        async with aclosing(self._turn(turn, owner, params)) as batches:
            async for updates in batches:
                yield updates
        if self._webhooks is not None:
            await self._webhooks.flush(turn.task_id, FLUSH_S)

    async def _turn(self, turn: Turn, owner: str, params: SendParams) -> AsyncGenerator[list[Update], None]:
        may_answer, task_id = self._may_answer(owner), turn.task_id
        fold, after = TaskFold(task_id), turn.after_sequence
        if after:
            fold = await self._service.get(task_id, owner)
            after = fold.sequence
            yield [view_of(fold, may_answer, history=params.history_length)]
            if fold.is_settled and await self._is_over(turn, owner, after):
                return
        updates = Updates(task_id, fold.session_id, may_answer, after)
        held: list[Update] | None = [] if self.options.message_replies and not after else None
        watch = self._service.watch(task_id, owner, after=after, stop_at=StopAt.INTERRUPTED)
        async with aclosing(watch) as batches:
            async for frames in batches:
                shown: list[Update] = []
                if not fold.sequence:
                    replay(fold, frames[:1])
                    updates = Updates(task_id, fold.session_id, may_answer, fold.sequence)
                    shown.append(view_of(fold, may_answer, history=params.history_length))
                    frames = frames[1:]  # noqa: PLW2901 -- the first frame is already in the view
                shown += await self._read(updates, frames, task_id)
                _mark_end(shown, updates)
                if held is not None:
                    held += shown
                    if not all(map(_is_plain_work, shown)):
                        shown, held = await self._decided(task_id, owner, held), None
                if held is None and shown:
                    yield shown
                if updates.waits:
                    break
        if held:
            yield await self._decided(task_id, owner, held)

    async def _read(self, updates: Updates, frames: Sequence[bytes], task_id: str) -> list[Update]:
        """Return the updates of these events. A message is held back for the next event, whose status it may explain, but only
        if that event is in the log already."""
        shown = await self._updates(updates, frames)
        if updates.holds and await self._service.last_sequence(task_id) <= sequence_of(frames[-1]):
            shown += updates.let_go()
        return shown

    async def _updates(self, updates: Updates, frames: Sequence[bytes]) -> list[Update]:
        for approval_id in filter(None, map(asked_in, frames)):
            request = await self._service.question(approval_id)
            if request is not None:
                updates.questions[approval_id] = request
        return updates.read(frames)

    async def _is_over(self, turn: Turn, owner: str, sequence: int) -> bool:
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

    async def _decided(self, task_id: str, owner: str, held: list[Update]) -> list[Update]:
        """Return the handler's direct message reply if there is one, otherwise the updates that were held back."""
        reply = reply_of(await self._service.get(task_id, owner))
        return [reply] if reply is not None else held

    def _demand(self, caller: CallerInfo, method: str) -> None:
        """Check that the caller may call `method`, which a message stands for. Raises PermissionDeniedError."""
        if self._access is not None:
            self._access(method, caller.principal)

    def _enter(self, caller: CallerInfo, tenant: str) -> str:
        """Check the request's extensions and tenant, and return the owner whose tasks the request concerns."""
        if self._demands:
            check_extensions(caller, self._demands)
        if not tenant:
            return caller.principal.name
        check_id(tenant, "tenant")
        if self.options.tenants is not None and tenant not in self.options.tenants:
            raise InvalidArgumentError("is not a tenant of this agent", field="tenant")
        return owner_of(caller.principal.name, tenant)

    async def _submission(self, caller: CallerInfo, owner: str, params: SendParams) -> tuple[Submission, Turn | None]:
        """Return the submission of a request, and the turn that it continues, or None if a turn has to begin.

        A turn is continued when the message answers an approval, or when the request repeats an earlier one.
        """
        message = params.message
        check_media_types(message.parts, self._accepted())
        if params.push is not None:
            self._demand(caller, SET_PUSH_V03 if caller.version == V03 else SET_PUSH)
            await self._pushing().check(params.push)
        metadata, context, request_id = _own_metadata(params.metadata)
        request_id = _request_id(caller.idempotency_key, request_id)
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
        fold = await self._service.get(params.task_id, owner)
        if request_id and (known := await self._service.turn_of(request_id, owner)) is not None:
            return submission, known  # a repeated request: its message was processed already
        if params.context_id and params.context_id != fold.session_id:
            raise InvalidArgumentError(
                f"task {params.task_id} belongs to another context than {params.context_id}", field="message.contextId"
            )
        if fold.pending_approvals and not fold.is_settled:
            return submission, await self._approve(caller, fold, message, owner)
        if message.id in fold.message_ids:
            # Some clients use the same id for another message. Ids in a log are unique, so the client's id goes into the metadata.
            own = dict(message.metadata or {})
            known = own.get(A2A_KEY)
            own[A2A_KEY] = {**(known if isinstance(known, dict) else {}), "message_id": message.id}
            submission.messages = [replace(message, id=new_message_id(), metadata=own)]
        return submission, None

    def _accepted(self) -> Sequence[str]:
        return [*self._card().input_formats, PART_MEDIA_TYPE]

    # -- approvals -------------------------------------------------------------------------------------------------------

    def _may_answer(self, owner: str) -> MayAnswer:
        approvals = self._approvals
        if approvals is None or not approvals.remote:
            return _nobody

        def entitled(request: ApprovalRequest) -> bool:
            return approvals.may_answer(owner, owner, request)

        return entitled

    async def _approve(self, caller: CallerInfo, fold: TaskFold, message: Message, owner: str) -> Turn:
        """Answer the pending approval of a task with the decision in the message."""
        decision = _decision_of(fold, message)
        if decision is None:
            raise TaskAlreadyRunningError(
                f"task {fold.task_id} waits for an approval; answer {' or '.join(ANSWERS)}, or send a data part of kind "
                f"{DECISION_TYPE}",
                task_id=fold.task_id,
                state=str(fold.state),
            )
        if decision.request_id not in fold.asked:
            raise ApprovalNotFoundError(
                f"task {fold.task_id} asks for no approval {decision.request_id}", approval_id=decision.request_id
            )
        self._demand(caller, RESPOND)
        after = fold.sequence
        await self._service.respond(decision, owner, any_etag=True)
        return self._service.turn_after(fold.task_id, after)

    # -- reading ---------------------------------------------------------------------------------------------------------

    async def get(self, caller: CallerInfo, tenant: str, task_id: str, history_length: int | None = None) -> TaskView:
        """Return the current state of a task. Raises TaskNotFoundError: unknown, or not the caller's."""
        owner = self._enter(caller, tenant)
        fold = await self._service.get(_required(task_id), owner)
        return view_of(fold, self._may_answer(owner), history=checked_length(history_length))

    async def list_tasks(self, caller: CallerInfo, params: ListParams) -> TaskPage:
        """Return one page of the caller's tasks, last changed first. Raises InvalidArgumentError as `listing.page_of`."""
        owner = self._enter(caller, params.tenant)
        asks = self._approvals is not None
        return await page_of(self._service, owner, params, self._may_answer(owner), asks=asks)

    async def subscribe(
        self, caller: CallerInfo, tenant: str, task_id: str, after: int | None = None
    ) -> AsyncGenerator[list[Update], None]:
        """Stream the current task and then its updates, without a gap, until the task ends.

        Args:
            after: Last sequence that the caller has received from an earlier stream. The stream then has no snapshot and begins
                with the updates after that sequence.

        Raises:
            UnsupportedOperationError: The task has ended (checked only without `after`), or the agent does not stream.
            TaskNotFoundError: Unknown, or not the caller's.
            SequenceOutOfRangeError: `after` is greater than the last sequence of the log.
        """
        self._check_streaming()
        owner = self._enter(caller, tenant)
        may_answer = self._may_answer(owner)
        if after is None:
            fold = await self._service.get(_required(task_id), owner)
            if fold.state in TERMINAL:
                raise UnsupportedOperationError(
                    f"task {task_id} is {fold.state}: nothing more will happen to it", task_id=task_id
                )
            # The view and its sequence are from the same state, so the watch continues exactly after the snapshot.
            snapshot, session_id, after = view_of(fold, may_answer, history=None), fold.session_id, fold.sequence
            yield [snapshot]
        else:
            # The head is enough for the owner and the session; the log is read once, by the watch.
            head = await self._service.head(_required(task_id), owner)
            session_id = head.session_id
            if after <= head.sequence:
                yield []  # starts the response at once, even if the task has no new events
        updates = Updates(task_id, session_id, may_answer, after)
        async with aclosing(self._service.watch(task_id, owner, after=after)) as batches:
            async for frames in batches:
                if shown := await self._read(updates, frames, task_id):
                    yield shown

    # -- steering --------------------------------------------------------------------------------------------------------

    async def cancel(
        self, caller: CallerInfo, tenant: str, task_id: str, metadata: dict[str, Any] | None = None
    ) -> TaskView:
        """Cancel a task and return its state afterwards.

        Raises:
            TaskNotFoundError: Unknown, or not the caller's.
            TaskNotCancelableError: It has ended in another state.
        """
        owner = self._enter(caller, tenant)
        said = (metadata or {}).get("reason")
        fold = await self._service.cancel(
            _required(task_id), owner, reason=said if isinstance(said, str) else "", metadata=metadata or {}
        )
        view = view_of(fold, self._may_answer(owner), history=None)
        if self._webhooks is not None:
            await self._webhooks.flush(task_id, FLUSH_S)
        return view

    # -- push notifications ----------------------------------------------------------------------------------------------

    async def set_push(self, caller: CallerInfo, config: PushConfig) -> PushConfig:
        """Register a webhook for a task and return it with its id. A webhook with the same id is replaced.

        Raises:
            PushNotSupportedError: The agent sends no notifications.
            InvalidArgumentError: The URL must not be called; names the field.
            TaskNotFoundError: Unknown, or not the caller's.
        """
        self._pushing()
        owner = self._enter(caller, config.tenant)
        fold = await self._service.get(_required(config.task_id, "taskId"), owner)
        return await self._add_push(caller, owner, config.task_id, config, fold.sequence)

    async def _add_push(
        self, caller: CallerInfo, owner: str, task_id: str, config: PushConfig, after: int
    ) -> PushConfig:
        if not config.id and caller.version == V03:
            # As in v0.2, where a task had one config: a config without an id replaces the previous one without an id.
            config = replace(config, id=DEFAULT_CONFIG)
        added: PushConfig = await self._pushing().add(
            owner, replace(config, task_id=task_id), after, caller.version or V1
        )
        return added

    async def get_push(self, caller: CallerInfo, tenant: str, task_id: str, config_id: str) -> PushConfig:
        """Return one webhook of a task. Raises TaskNotFoundError if the task or the config is unknown, else as `set_push`."""
        pushing = self._pushing()
        owner = self._enter(caller, tenant)
        _required(config_id, "id")
        await self._service.head(_required(task_id, "taskId"), owner)
        found: PushConfig | None = await pushing.get(owner, task_id, config_id)
        if found is None:
            raise TaskNotFoundError(
                f"task {task_id} has no push config {config_id}", task_id=task_id, config_id=config_id
            )
        return found

    async def list_push(
        self, caller: CallerInfo, tenant: str, task_id: str, page_size: int | None = None, page_token: str = ""
    ) -> PushPage:
        """Return one page of a task's webhooks, oldest first. Raises as `set_push`."""
        pushing = self._pushing()
        owner = self._enter(caller, tenant)
        if page_size is not None and not 0 <= page_size <= MAX_PAGE_SIZE:
            raise InvalidArgumentError(f"must be 0 to {MAX_PAGE_SIZE}", field="pageSize")
        await self._service.head(_required(task_id, "taskId"), owner)
        configs, following = await pushing.page(owner, task_id, page_size or PAGE_SIZE, cursor_of(page_token))
        return PushPage(configs, token_from_cursor(following))

    async def delete_push(self, caller: CallerInfo, tenant: str, task_id: str, config_id: str) -> None:
        """Delete a webhook. An unknown webhook is not an error. Raises as `set_push`."""
        pushing = self._pushing()
        owner = self._enter(caller, tenant)
        _required(config_id, "id")
        await self._service.head(_required(task_id, "taskId"), owner)
        await pushing.remove(owner, task_id, config_id)

    def _pushing(self) -> Any:
        if self._webhooks is None:
            raise PushNotSupportedError("this agent sends no push notifications")
        return self._webhooks

    async def _rendered(self, version: str, owner: str, task_id: str, after: int) -> Rendered:
        """Return the next notifications for a webhook of that version."""
        frames = await self._service.read_log(task_id, after, PIECE)
        if not frames:
            return Rendered((), after)
        head = await self._service.head(task_id, owner)
        reading = Updates(task_id, head.session_id, self._may_answer(owner), after)
        updates, sequence = await self._updates(reading, frames), after + len(frames)
        while reading.holds and (frames := await self._service.read_log(task_id, sequence, PIECE)):
            updates += await self._updates(reading, frames)
            sequence += len(frames)
        updates += reading.let_go()
        if not updates:
            return Rendered((), sequence)
        if version == V03:
            # A v0.3 notification is the whole current task, so one is enough, also for the events after this piece.
            fold = await self._service.get(task_id, owner)
            sequence = max(sequence, fold.sequence)
            body = push_body_v03(view_of(fold, self._may_answer(owner), history=None))
            return Rendered([(sequence, to_json(body).encode())], sequence)
        return Rendered([(each.sequence, to_json(update_json(each)).encode()) for each in updates], sequence)

    # -- cards -----------------------------------------------------------------------------------------------------------

    def _check_streaming(self) -> None:
        if not self.options.streaming:
            raise UnsupportedOperationError("this agent does not stream")

    def public_card(self) -> PublicCard:
        """Return the public card."""
        return self._made_card(self._card())

    async def extended_card(self, caller: CallerInfo, tenant: str = "") -> PublicCard:
        """Return the extended card, which is for authenticated callers.

        Raises:
            UnsupportedOperationError: The agent has no extended card.
            UnauthenticatedError: The caller is not authenticated.
            ExtendedCardNotConfiguredError: There is no extended card for this caller.
        """
        made = self.options.extended_card
        if made is None:
            raise UnsupportedOperationError("this agent has no extended card")
        self._enter(caller, tenant)
        if not caller.authenticated:
            raise UnauthenticatedError("authentication is needed: the extended card is shown to known callers only")
        card = made(caller.principal) if callable(made) else made
        if card is None:
            raise ExtendedCardNotConfiguredError("there is no extended card for this caller")
        return self._made_card(card)

    def _made_card(self, card: AgentCard) -> PublicCard:
        options = self.options
        return PublicCard(
            card,
            tuple(self._bindings()),
            streaming=options.streaming,
            push_notifications=self._webhooks is not None,
            extended_card=options.extended_card is not None,
            extensions=options.extensions,
            provider_url=options.provider_url,
            provider_organization=options.provider_organization,
            documentation_url=options.documentation_url,
            icon_url=options.icon_url,
        )


def _nobody(_: ApprovalRequest) -> bool:
    return False


def _mark_end(shown: Sequence[Update], updates: Updates) -> None:
    """Mark the update that ends the stream of a turn as final; v0.3 requires this mark."""
    last = shown[-1] if shown else None
    if isinstance(last, StatusUpdate) and (updates.waits or last.status.state in INTERRUPTED):
        last.final = True


def _is_plain_work(update: Update) -> bool:
    """Return whether the update only shows that the task has begun, so that the response may still be a message."""
    if isinstance(update, TaskView | StatusUpdate):
        return update.status.state in (TaskState.SUBMITTED, TaskState.WORKING) and update.status.message is None
    return False


def _own_metadata(metadata: dict[str, Any]) -> tuple[dict[str, Any], RunContext | None, str]:
    """Return the request metadata without this package's key, the run context under that key, and the request id."""
    own = metadata.get(OWN_KEY)
    if not isinstance(own, dict) or own.keys().isdisjoint((CONTEXT_KEY, REQUEST_KEY)):
        return metadata, None, ""
    given, request_id, context = own.get(CONTEXT_KEY), own.get(REQUEST_KEY, ""), None
    if not isinstance(request_id, str):
        raise InvalidArgumentError("must be a string", field=f"metadata.{OWN_KEY}.{REQUEST_KEY}")
    try:
        if given is not None:
            context = RunContext.from_dict(given)
            check_id(context.run_id, "run_id")
    except InvalidArgumentError as error:
        raise error.within(f"metadata.{OWN_KEY}.{CONTEXT_KEY}") from None
    return {key: value for key, value in metadata.items() if key != OWN_KEY}, context, request_id


def _request_id(header: str, said: str) -> str:
    """Return the request id from the idempotency key or from the metadata; empty if neither has one.

    Raises:
        InvalidArgumentError: It is too long or not printable, or the two differ.
    """
    if header and said and header != said:
        raise InvalidArgumentError(f"is another one than in metadata.{OWN_KEY}.{REQUEST_KEY}", field="Idempotency-Key")
    return check_id(header or said, "Idempotency-Key" if header else f"metadata.{OWN_KEY}.{REQUEST_KEY}")


def _decision_of(fold: TaskFold, message: Message) -> ApprovalDecision | None:
    """Return the decision in a message about a pending approval, or None if it has none.

    The decision is a data part, or one of the words in `ANSWERS` if exactly one approval is pending.
    """
    for part in message.parts:
        content = part.content
        if part.type in (DECISION_TYPE, "json") and isinstance(content, dict) and "approved" in content:
            try:
                return ApprovalDecision.from_dict(content)
            except InvalidArgumentError as error:
                raise error.within("message.parts") from None
    said = message.text.strip().casefold()
    if said not in ANSWERS or len(fold.pending_approvals) != 1:
        return None
    return ApprovalDecision(said == ANSWERS[0], next(iter(fold.pending_approvals)))


def _required(value: str, field: str = "id") -> str:
    if not value:
        raise InvalidArgumentError("must not be empty", field=field)
    return check_id(value, field)


__all__ = ["APPROVAL_TYPE", "DECISION_TYPE", "Operations"]
