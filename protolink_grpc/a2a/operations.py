"""A2A's operations over the runtime: what a binding calls after it has read a request and before it writes an answer.

Each verb is one of A2A's. Nothing is kept here: a task, its session and its history are readings of its log, and a push config is a
reader of it. A2A demands that tasks of others do not exist; so every verb works on what the caller owns.
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
    Asked,
    Binding,
    ListParams,
    MessageReply,
    PublicCard,
    PushConfig,
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
from protolink_grpc.runtime.approvals import Approvals
from protolink_grpc.runtime.service import TaskService, Turn
from protolink_grpc.runtime.submission import StopAt, Submission, TaskTarget
from protolink_grpc.wire.events import asked_in, replay, sequence_of, settles
from protolink_grpc.wire.pages import token_from_cursor
from protolink_grpc.wire.tasks import check_id

REQUEST_KEY = "request_id"
"""Request metadata `{"plgrpc": {"run_context": {...}, "request_id": "..."}}`: limits and permissions that narrow the run, and
what the header `Idempotency-Key` says, for clients that cannot set one."""

DECISION_TYPE = "approval_decision"
"""Kind of the data part that answers an approval: `{"request_id", "approved", "reason"}`."""

FLUSH_S = 1.0
"""How long a blocking answer waits at most for the notifications that are due."""

SET_PUSH = "/lf.a2a.v1.A2AService/CreateTaskPushNotificationConfig"
SET_PUSH_V03 = "/a2a.v1.A2AService/CreateTaskPushNotificationConfig"
RESPOND = "/plgrpc.v1.ControlService/RespondApproval"
"""What a message can do in place of a method of its own: rules about who may call know it by that name."""

DEFAULT_CONFIG = "default"
"""Id of the push config that a caller of v0.3 names none."""

PIECE = 64
"""Events that a webhook is told of at a time."""


class Operations:
    """A2A's verbs on one agent.

    Args:
        card: The agent's card as it is now.
        bindings: Where it can be reached, as the card shall say.
        approvals: Who may answer approvals; None lets nobody answer from outside.
        access: What callers may do, by method. The binding has asked about the operation itself; what a message does besides, in
            place of another method, is asked here.
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
            # Here: what posts is a third of all that the A2A edge loads, and most agents send no notifications.
            from protolink_grpc.a2a.push import Webhooks

            self._webhooks = Webhooks(service, self.options.push, self._rendered)
        self._demands = tuple(each for each in self.options.extensions if each.required)

    async def start(self) -> None:
        """Go on with the notifications that an earlier process left. After the service's own start. Raises StoreError."""
        if self._webhooks is not None:
            await self._webhooks.start()

    async def stop(self, grace_s: float = 5.0) -> None:
        """Send what is due, for `grace_s` seconds at most. After the service's stop."""
        if self._webhooks is not None:
            await self._webhooks.stop(grace_s)

    # -- sending ---------------------------------------------------------------------------------------------------------

    async def send(self, asked: Asked, params: SendParams) -> TaskView | MessageReply:
        """Begin or continue a task; the answer is its state at the end of the turn, or right away where the caller wants that.

        Raises:
            InvalidArgumentError: The request contradicts itself, or the task.
            ContentTypeNotSupportedError: A part is of a kind that the card does not name.
            TaskNotFoundError: The task to continue is unknown, or not the caller's.
            TaskFinishedError, TaskAlreadyRunningError: It takes no messages (any more, or now).
            ResourceExhaustedError, UnavailableError, StoreError: As `TaskService.send`.
        """
        owner = self._enter(asked, params.tenant)
        submission, answered = await self._submission(asked, owner, params)
        service = self._service
        may_answer = self._may_answer(owner)
        if answered is None and params.push is None and not params.return_immediately and self._approvals is None:
            return self._answer(await service.send(submission, owner), may_answer, params)
        waits = not params.return_immediately
        turn = await self._begun(asked, owner, submission, answered, params.push, waits=waits)
        if params.return_immediately:
            return view_of(await service.get(turn.task_id, owner), may_answer, history=params.history_length)
        # Read before the flush: meanwhile somebody may begin the next turn of a task that waits for input.
        answer = self._answer(await self._settled(turn, owner), may_answer, params)
        if self._webhooks is not None:
            await self._webhooks.flush(turn.task_id, FLUSH_S)
        return answer

    async def _begun(
        self,
        asked: Asked,
        owner: str,
        submission: Submission,
        answered: Turn | None,
        push: PushConfig | None,
        *,
        waits: bool,
    ) -> Turn:
        """The turn of a request, with its webhook: a caller that hangs up gets both or neither."""
        if push is None:
            return answered or await self._service.submit(submission, owner, waits=waits)

        if not push.id and submission.request_id and asked.version != V03:
            push = replace(push, id=submission.request_id)  # a repetition sets the same webhook again

        async def begin() -> Turn:
            turn = answered or await self._service.submit(submission, owner, waits=waits)
            await self._add_push(asked, owner, turn.task_id, push, turn.after_sequence)
            return turn

        return await asyncio.shield(begin())

    def _answer(self, fold: TaskFold, may_answer: MayAnswer, params: SendParams) -> TaskView | MessageReply:
        reply = reply_of(fold) if self.options.message_replies else None
        return reply or view_of(fold, may_answer, history=params.history_length)

    async def _settled(self, turn: Turn, owner: str) -> TaskFold:
        """The task when its turn has ended, or when it waits for an approval."""
        if self._approvals is None:
            return await self._service.settled(turn)
        end = asyncio.ensure_future(self._service.settled(turn))
        question = asyncio.ensure_future(self._question(turn.task_id, owner))
        try:
            await asyncio.wait({end, question}, return_when=asyncio.FIRST_COMPLETED)
            if end.done() or question.exception() is not None:
                return await end  # that nobody can look for a question is no reason to stop waiting
            return question.result()
        finally:
            for each in (end, question):
                each.cancel()
            await asyncio.wait({end, question})

    async def _question(self, task_id: str, owner: str) -> TaskFold:
        """The task when it waits for an approval; its owner sees every one of them."""
        while True:
            fold = await self._service.get(task_id, owner)
            # One that waits for its caller may have been told already, and wait for a slot.
            if fold.pending_approvals or fold.is_terminal:
                return fold
            updates = Updates(task_id, "", _nobody)
            async with aclosing(self._service.watch(task_id, owner, after=fold.sequence)) as batches:
                async for frames in batches:
                    updates.read(frames)
                    if updates.waits:
                        break  # somebody may have answered it already

    async def stream(self, asked: Asked, params: SendParams) -> AsyncGenerator[list[Update], None]:
        """Begin or continue a task and show it: first the task, then what happens to it, until the turn ends. Raises as `send`."""
        self._check_streaming()
        owner = self._enter(asked, params.tenant)
        submission, answered = await self._submission(asked, owner, params)
        turn = await self._begun(asked, owner, submission, answered, params.push, waits=True)
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
                    frames = frames[1:]  # noqa: PLW2901 -- the rest of it
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
        """What these events say. A message that the next event may explain waits for it where that is in the log already."""
        shown = await self._updates(updates, frames)
        if updates.holds:
            head = await self._service.store.head(task_id)
            if head is None or head.sequence <= sequence_of(frames[-1]):
                shown += updates.let_go()
        return shown

    async def _updates(self, updates: Updates, frames: Sequence[bytes]) -> list[Update]:
        for approval_id in filter(None, map(asked_in, frames)):
            request = await self._service.question(approval_id)
            if request is not None:
                updates.questions[approval_id] = request
        return updates.read(frames)

    async def _is_over(self, turn: Turn, owner: str, sequence: int) -> bool:
        """Whether the turn had ended at that position. One that waits for a slot leaves its task as it was: settled."""
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
        """What was held back, or the message that the handler has answered with instead."""
        reply = reply_of(await self._service.get(task_id, owner))
        return [reply] if reply is not None else held

    def _demand(self, asked: Asked, method: str) -> None:
        """Pass when the caller may do what a message does in place of `method`. Raises PermissionDeniedError."""
        if self._access is not None:
            self._access(method, asked.principal)

    def _enter(self, asked: Asked, tenant: str) -> str:
        """Who owns what this request is about."""
        if self._demands:
            check_extensions(asked, self._demands)
        if not tenant:
            return asked.principal.name
        check_id(tenant, "tenant")
        if self.options.tenants is not None and tenant not in self.options.tenants:
            raise InvalidArgumentError("is not a tenant of this agent", field="tenant")
        return owner_of(asked.principal.name, tenant)

    async def _submission(self, asked: Asked, owner: str, params: SendParams) -> tuple[Submission, Turn | None]:
        """What the request contributes to a task; or the turn that goes on because the message answers an approval."""
        message = params.message
        check_media_types(message.parts, self._accepted())
        if params.push is not None:
            self._demand(asked, SET_PUSH_V03 if asked.version == V03 else SET_PUSH)
            await self._pushing().check(params.push)
        metadata, context, request_id = _own_metadata(params.metadata)
        request_id = _request_id(asked.idempotency_key, request_id)
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
            scopes=asked.principal.scopes,
        )
        if not params.task_id:
            return submission, None
        fold = await self._service.get(params.task_id, owner)
        if request_id and (known := await self._service.turn_of(request_id, owner)) is not None:
            return submission, known  # whatever its message says, it was acted upon
        if params.context_id and params.context_id != fold.session_id:
            raise InvalidArgumentError(
                f"task {params.task_id} belongs to another context than {params.context_id}", field="message.contextId"
            )
        if fold.pending_approvals and not fold.is_settled:
            return submission, await self._approve(asked, fold, message, owner)
        if message.id in fold.message_ids:
            # The same id for another message: clients do that. The log's ids are unique; theirs is kept beside.
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
            return approvals.entitles(owner, owner, request)

        return entitled

    async def _approve(self, asked: Asked, fold: TaskFold, message: Message, owner: str) -> Turn:
        """Answer the approval that a task waits for with what its caller says."""
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
        self._demand(asked, RESPOND)
        after = fold.sequence
        await self._service.respond(decision, owner, any_etag=True)
        return Turn(fold.task_id, after, self._service.attempt(fold.task_id))

    # -- reading ---------------------------------------------------------------------------------------------------------

    async def get(self, asked: Asked, tenant: str, task_id: str, history_length: int | None = None) -> TaskView:
        """A task as it is now. Raises TaskNotFoundError: unknown, or not the caller's."""
        owner = self._enter(asked, tenant)
        fold = await self._service.get(_required(task_id), owner)
        return view_of(fold, self._may_answer(owner), history=checked_length(history_length))

    async def list_tasks(self, asked: Asked, params: ListParams) -> TaskPage:
        """One page of the caller's tasks, last changed first. Raises InvalidArgumentError as `listing.page_of`."""
        owner = self._enter(asked, params.tenant)
        asks = self._approvals is not None
        return await page_of(self._service, owner, params, self._may_answer(owner), asks=asks)

    async def subscribe(
        self, asked: Asked, tenant: str, task_id: str, after: int | None = None
    ) -> AsyncGenerator[list[Update], None]:
        """The task as it is now and then what happens to it, without a seam, until it ends.

        Args:
            after: Sequence that the caller has seen, from an earlier stream: shows what came since, and no snapshot.

        Raises:
            UnsupportedOperationError: The task has ended, or the agent does not stream.
            TaskNotFoundError: Unknown, or not the caller's.
            SequenceOutOfRangeError: `after` lies behind the end of the log.
        """
        self._check_streaming()
        owner = self._enter(asked, tenant)
        may_answer = self._may_answer(owner)
        if after is None:
            fold = await self._service.get(_required(task_id), owner)
            if fold.state in TERMINAL:
                raise UnsupportedOperationError(
                    f"task {task_id} is {fold.state}: nothing more will happen to it", task_id=task_id
                )
            # One reading, no await between it and its sequence: what comes after it comes next.
            snapshot, session_id, after = view_of(fold, may_answer, history=None), fold.session_id, fold.sequence
            yield [snapshot]
        else:
            # Whose it is and in which session is in its head; its log is read once, by the watch.
            head = await self._service.head(_required(task_id), owner)
            session_id = head.session_id
            if after <= head.sequence:
                yield []  # accepted: who comes back to a quiet task is told so at once
        updates = Updates(task_id, session_id, may_answer, after)
        async with aclosing(self._service.watch(task_id, owner, after=after)) as batches:
            async for frames in batches:
                if shown := await self._read(updates, frames, task_id):
                    yield shown

    # -- steering --------------------------------------------------------------------------------------------------------

    async def cancel(self, asked: Asked, tenant: str, task_id: str, metadata: dict[str, Any] | None = None) -> TaskView:
        """Cancel a task and show it as it is then.

        Raises:
            TaskNotFoundError: Unknown, or not the caller's.
            TaskNotCancelableError: It has ended otherwise.
        """
        owner = self._enter(asked, tenant)
        said = (metadata or {}).get("reason")
        fold = await self._service.cancel(
            _required(task_id), owner, reason=said if isinstance(said, str) else "", metadata=metadata or {}
        )
        view = view_of(fold, self._may_answer(owner), history=None)
        if self._webhooks is not None:
            await self._webhooks.flush(task_id, FLUSH_S)
        return view

    # -- push notifications ----------------------------------------------------------------------------------------------

    async def set_push(self, asked: Asked, config: PushConfig) -> PushConfig:
        """Register a webhook for a task and show it with its id; one of the same id is replaced.

        Raises:
            PushNotSupportedError: The agent sends no notifications.
            InvalidArgumentError: The URL may not be called; names it.
            TaskNotFoundError: Unknown, or not the caller's.
        """
        self._pushing()
        owner = self._enter(asked, config.tenant)
        fold = await self._service.get(_required(config.task_id, "taskId"), owner)
        return await self._add_push(asked, owner, config.task_id, config, fold.sequence)

    async def _add_push(self, asked: Asked, owner: str, task_id: str, config: PushConfig, after: int) -> PushConfig:
        if not config.id and asked.version == V03:
            # As in v0.2, where a task had one config: setting it again without an id replaces it.
            config = replace(config, id=DEFAULT_CONFIG)
        added: PushConfig = await self._pushing().add(
            owner, replace(config, task_id=task_id), after, asked.version or V1
        )
        return added

    async def get_push(self, asked: Asked, tenant: str, task_id: str, config_id: str) -> PushConfig:
        """One webhook of a task. Raises TaskNotFoundError where the task or the config is unknown, else as `set_push`."""
        pushing = self._pushing()
        owner = self._enter(asked, tenant)
        _required(config_id, "id")
        await self._service.head(_required(task_id, "taskId"), owner)
        found: PushConfig | None = await pushing.get(owner, task_id, config_id)
        if found is None:
            raise TaskNotFoundError(
                f"task {task_id} has no push config {config_id}", task_id=task_id, config_id=config_id
            )
        return found

    async def list_push(
        self, asked: Asked, tenant: str, task_id: str, page_size: int | None = None, page_token: str = ""
    ) -> PushPage:
        """One page of a task's webhooks, oldest first. Raises as `set_push`."""
        pushing = self._pushing()
        owner = self._enter(asked, tenant)
        if page_size is not None and not 0 <= page_size <= MAX_PAGE_SIZE:
            raise InvalidArgumentError(f"must be 0 to {MAX_PAGE_SIZE}", field="pageSize")
        await self._service.head(_required(task_id, "taskId"), owner)
        configs, following = await pushing.page(owner, task_id, page_size or PAGE_SIZE, cursor_of(page_token))
        return PushPage(configs, token_from_cursor(following))

    async def delete_push(self, asked: Asked, tenant: str, task_id: str, config_id: str) -> None:
        """Forget a webhook; one that is not there is forgotten already. Raises as `set_push`."""
        pushing = self._pushing()
        owner = self._enter(asked, tenant)
        _required(config_id, "id")
        await self._service.head(_required(task_id, "taskId"), owner)
        await pushing.remove(owner, task_id, config_id)

    def _pushing(self) -> Any:
        if self._webhooks is None:
            raise PushNotSupportedError("this agent sends no push notifications")
        return self._webhooks

    async def _rendered(self, version: str, owner: str, task_id: str, after: int) -> Rendered:
        """What a webhook of that version is told next."""
        frames = await self._service.store.read(task_id, after, PIECE)
        if not frames:
            return Rendered((), after)
        head = await self._service.head(task_id, owner)
        reading = Updates(task_id, head.session_id, self._may_answer(owner), after)
        updates, sequence = await self._updates(reading, frames), after + len(frames)
        while reading.holds and (frames := await self._service.store.read(task_id, sequence, PIECE)):
            updates += await self._updates(reading, frames)
            sequence += len(frames)
        updates += reading.let_go()
        if not updates:
            return Rendered((), sequence)
        if version == V03:
            # v0.3 tells the whole task, as it is now: once is enough, also for what came after this piece.
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
        """What the agent tells everybody."""
        return self._made_card(self._card())

    async def extended_card(self, asked: Asked, tenant: str = "") -> PublicCard:
        """What the agent tells callers that it knows.

        Raises:
            UnsupportedOperationError: There is no extended card.
            UnauthenticatedError: The caller is not known.
            ExtendedCardNotConfiguredError: There is none for this caller.
        """
        made = self.options.extended_card
        if made is None:
            raise UnsupportedOperationError("this agent has no extended card")
        self._enter(asked, tenant)
        if not asked.authenticated:
            raise UnauthenticatedError("authentication is needed: the extended card is shown to known callers only")
        card = made(asked.principal) if callable(made) else made
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
    """Say of the update that ends the stream of a turn that it does: v0.3 wants to know."""
    last = shown[-1] if shown else None
    if isinstance(last, StatusUpdate) and (updates.waits or last.status.state in INTERRUPTED):
        last.final = True


def _is_plain_work(update: Update) -> bool:
    """Whether it shows nothing but a task that has begun: the answer may still be a message."""
    if isinstance(update, TaskView | StatusUpdate):
        return update.status.state in (TaskState.SUBMITTED, TaskState.WORKING) and update.status.message is None
    return False


def _own_metadata(metadata: dict[str, Any]) -> tuple[dict[str, Any], RunContext | None, str]:
    """The metadata of a request without what is meant for us in them, the context that they bring, and the request id."""
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
    """The id of a request by its idempotency key and by its metadata; empty where it has none.

    Raises:
        InvalidArgumentError: It is too long or not printable, or there are two.
    """
    if header and said and header != said:
        raise InvalidArgumentError(f"is another one than in metadata.{OWN_KEY}.{REQUEST_KEY}", field="Idempotency-Key")
    return check_id(header or said, "Idempotency-Key" if header else f"metadata.{OWN_KEY}.{REQUEST_KEY}")


def _decision_of(fold: TaskFold, message: Message) -> ApprovalDecision | None:
    """What a message says to the approvals that a task waits for: a data part, or one of `ANSWERS` where there is one only."""
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
