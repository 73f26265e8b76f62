"""An A2A agent as a peer: the agent port over the official A2A client, for every binding and version.

An A2A peer assigns its own task ids, and its updates have no sequence. Here a task keeps its own id; the peer's id is in
`metadata["a2a"]`, so that another process can continue the task. Streams are computed from the peer's snapshots and updates: after
a reconnect, the next snapshot is compared with the events already shown.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

from a2a.types import a2a_pb2 as pb

from protolink_grpc.a2a.client.messages import build_list_request, build_request, summary_of, tidy, tidy_task
from protolink_grpc.a2a.client.peer import A2APeer, Link
from protolink_grpc.a2a.client.remote_log import Reading, view_of_task
from protolink_grpc.a2a.client.transport import PeerInterface, a2a_errors
from protolink_grpc.a2a.pb_codec import push_config_from_pb, push_config_pb, task_from_pb, update_from_pb
from protolink_grpc.a2a.values import A2A_KEY, MessageReply, TaskView, Update
from protolink_grpc.client.backoff import Backoff
from protolink_grpc.client.http_channel import SAFE_TO_REPEAT
from protolink_grpc.client.no_control_service import NoControlService
from protolink_grpc.client.port import A2A, CalledTool, ListFilter, Sent, TaskList
from protolink_grpc.client.timeouts import limited_stream, time_limit
from protolink_grpc.errors import (
    DeadlineExceededError,
    PermissionDeniedError,
    ProtolinkError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnauthenticatedError,
    UnavailableError,
    UncertainExecutionError,
)
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.events import PeerTaskLinked, RunEvent
from protolink_grpc.models.lifecycle import INTERRUPTED, SETTLED, TERMINAL
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import ToolCall, ToolOutput
from protolink_grpc.models.push_config import PushConfig
from protolink_grpc.models.task import Task
from protolink_grpc.models.task_target import TaskTarget, finished_error
from protolink_grpc.models.watch import StopAt
from protolink_grpc.net.exponential_delay import ExponentialDelay

KIND: Final = "an A2A agent"
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 3.0
"""Shortest and longest polling interval for a task that cannot be subscribed to; the interval doubles."""

OUTAGE_S = 60.0
"""How long a peer may be unavailable while a response is awaited, in seconds."""

FIRST_RESPONSE_S = 1.0
"""How long a canceled call still waits for the first response, in seconds."""


_Response = tuple[Update, bool]
_Configs = list[PushConfig]  # inside the class, `list` is a method


class A2AAgent(NoControlService):
    """The agent behind an A2A card. Cheap to create: the state of the peer is shared."""

    def __init__(self, peer: A2APeer) -> None:
        super().__init__(peer.url, KIND)
        self._peer = peer
        # The events that this port has shown; another port may have numbered the events of the same task differently.
        self._seen: dict[str, Reading] = {}

    async def card(self, timeout_s: float | None) -> AgentCard:
        async with time_limit(timeout_s, self.url):
            return (await self._peer.card(refresh=True)).own

    async def protocol(self) -> str:
        return A2A

    # -- sending -------------------------------------------------------------------------------------------------------------

    async def send(
        self,
        task: Task,
        request_id: str,
        *,
        target: TaskTarget = TaskTarget.CREATE_OR_CONTINUE,
        expected: int = 0,
        wait: bool,
        timeout_s: float | None,
    ) -> Sent:
        self._check_expected(expected)
        must_exist = target is TaskTarget.CONTINUE
        # The request has only the last item, and no reading is stored, so the rest of the task is not available.
        partial = must_exist and self._peer.reading_of(task.id) is None
        async with time_limit(timeout_s, self.url, task_id=task.id):
            await self._send_with_retries(task, request_id, must_exist=must_exist, wait=wait)
        fold = self._seen[task.id].fold
        if partial:
            return Sent(fold.to_task(turn=True), -1, -1)
        return Sent(fold.to_task(turn=True), len(fold.messages), len(fold.artifacts))

    async def _send_with_retries(self, task: Task, request_id: str, *, must_exist: bool, wait: bool) -> None:
        """Send a task. After an interruption, repeat the request with the same idempotency key if the peer supports these keys."""
        backoff = Backoff(OUTAGE_S)
        while True:
            backoff.begin()
            turn = self._stream_turn(task, request_id, must_exist=must_exist, at_once=not wait)
            try:
                await (self._read_to_end(task.id, turn) if wait else _exhaust(turn))
                return
            except UnavailableError as error:
                if task.id in self._seen or not self._peer.knows_keys:
                    raise  # a task that has begun is watched, not sent again
                await backoff.wait_after(error)

    async def _read_to_end(self, task_id: str, events: AsyncGenerator[list[RunEvent], None]) -> None:
        """Read the events to the end of the turn and reconnect after interruptions."""
        backoff = Backoff(OUTAGE_S)
        while True:
            backoff.begin()
            try:
                async with aclosing(events):
                    async for _ in events:
                        backoff.reset()
                return
            except ProtolinkError as error:
                seen = self._seen.get(task_id)
                if seen is None or not error.rule.retryable:
                    raise
                await backoff.wait_after(error)
                events = self.watch(task_id, seen.sequence, StopAt.INTERRUPTED, timeout_s=None)

    def stream(
        self,
        task: Task,
        request_id: str,
        *,
        target: TaskTarget = TaskTarget.CREATE_OR_CONTINUE,
        expected: int = 0,
        deltas: bool = False,
        timeout_s: float | None,
    ) -> AsyncGenerator[list[RunEvent], None]:
        self._check_expected(expected)
        turn = self._stream_turn(task, request_id, must_exist=target is TaskTarget.CONTINUE)
        return limited_stream(turn, timeout_s, self.url, task_id=task.id)

    async def _stream_turn(
        self, task: Task, request_id: str, *, must_exist: bool, at_once: bool = False
    ) -> AsyncGenerator[list[RunEvent], None]:
        """Send a task and yield the events of the turn, from the first response on.

        Args:
            at_once: Stop after the peer's first response; it need not wait for the end of the turn.

        Raises:
            UncertainExecutionError: Interrupted before the first response. Whether the turn began is unknown, and another
                request might begin a second one.
            UnavailableError: Interrupted after the first response, or the stream ended before the turn: watch the task. Or
                interrupted before the first response of a peer that supports idempotency keys: send again with the same
                request id.
        """
        link = self._peer.link_of(task)
        if link is None and must_exist:
            raise TaskNotFoundError(f"this client has not sent task {task.id} to {self.url}", task_id=task.id)
        if task.is_terminal and (link is None or not link.task_id):
            raise finished_error(task.state)  # an A2A message does not contain the task's state
        reading: Reading | None = None
        try:
            async with aclosing(self._send_message(task, link or Link(), request_id, at_once)) as responses:
                response = await self._read_first(task.id, responses)
                while response is not None:
                    update, stale = response
                    if reading is None:
                        reading = await self._open_reading(task, link, update)
                        for event in reading.begin(task, self._remote_ids(reading)):
                            yield [event]
                    for event in self._events(reading, update, stale):
                        yield [event]
                        if event.state in SETTLED:
                            return
                    response = await anext(responses, None)
        except (UnavailableError, DeadlineExceededError) as error:
            can_repeat = isinstance(error, UnavailableError) and self._peer.knows_keys
            if reading is None and not can_repeat and not _is_safe_to_repeat(error):
                raise UncertainExecutionError(
                    f"{error}; whether task {task.id} was started is unknown", task_id=task.id, url=self.url
                ) from None
            raise
        finally:
            if reading is not None:
                self._close_reading(reading)
        if not at_once:
            raise self._incomplete_stream_error(task.id)

    async def _read_first(self, task_id: str, responses: AsyncGenerator[_Response, None]) -> _Response | None:
        """Return the first response.

        It contains the peer's task id, which a cancel and a later process need. So a canceled call waits `FIRST_RESPONSE_S` for it.
        """
        coming: asyncio.Task[_Response | None] = asyncio.ensure_future(_next(responses))
        try:
            return await asyncio.shield(coming)
        except asyncio.CancelledError:
            await asyncio.wait([coming], timeout=FIRST_RESPONSE_S)
            response = coming.result() if coming.done() and coming.exception() is None else None
            if response is not None:
                link = Link(*_ids_of(response[0]))
                self._peer.remember_link(task_id, link)
                with suppress(ProtolinkError):
                    await self._note_link(task_id, link, (await self._peer.card()).own.name)
            raise
        finally:
            if not coming.done():
                coming.cancel()
                await asyncio.wait([coming])

    async def _send_message(
        self, task: Task, link: Link, request_id: str, at_once: bool
    ) -> AsyncGenerator[_Response, None]:
        """Send a message and yield the peer's updates, each with whether it may show the task before the message."""
        interface = await self._peer.interface()
        request = build_request(
            task,
            task_id=link.task_id,
            context_id=link.context_id,
            tenant=interface.tenant,
            at_once=at_once,
            is_own_agent=self._peer.is_own_agent,
        )
        if at_once or not interface.streaming:
            response = await self._peer.call(interface, "send_message", request, task.id, key=request_id)
            with a2a_errors(self.url, interface.grpc, task_id=task.id):
                update = update_from_pb(tidy(response))
            yield update, False
            return
        first = bool(link.task_id)
        stream = self._peer.stream(interface, "send_message_streaming", request, task.id, key=request_id)
        async with aclosing(stream) as updates:
            async for update in updates:
                yield update, first
                first = False

    async def _open_reading(self, task: Task, link: Link | None, update: Update) -> Reading:
        known = self._peer.reading_of(task.id) if link is not None else None
        reading = known.for_new_reader() if known is not None else Reading(task.id, (await self._peer.card()).own.name)
        reading.busy = True
        reading.remote_id, reading.context_id = _ids_of(update)
        link = Link(reading.remote_id, reading.context_id)
        self._peer.remember_link(task.id, link)
        self._seen[task.id] = reading
        await self._note_link(task.id, link, reading.agent_name)
        return reading

    async def _note_link(self, task_id: str, link: Link, agent_name: str) -> None:
        """Call the `note` of `note_ids` with the ids of a task. A response without a task has none."""
        note = self._peer.notes.get(task_id)
        if note is not None and link.task_id:
            await note(PeerTaskLinked(agent_name, self.url, A2A, link.task_id, link.context_id))

    def _remote_ids(self, reading: Reading) -> Mapping[str, Any]:
        """Return the peer's ids of the task and its session, and the peer's URL."""
        if not reading.remote_id and not reading.context_id:
            return {}
        names = {"task_id": reading.remote_id, "context_id": reading.context_id, "url": self.url}
        return {key: value for key, value in names.items() if value}

    def _events(self, reading: Reading, update: Update, stale: bool = False) -> Iterator[RunEvent]:
        remote_id, context_id = _ids_of(update)
        reading.remote_id = reading.remote_id or remote_id
        reading.context_id = reading.context_id or context_id
        return reading.read(update, self._remote_ids(reading), stale=stale)

    def _close_reading(self, reading: Reading) -> None:
        reading.busy = False
        self._peer.store_reading(reading)

    def _incomplete_stream_error(self, task_id: str) -> UnavailableError:
        return UnavailableError(f"{self.url} ended a stream before the end of its task", url=self.url, task_id=task_id)

    # -- reading -------------------------------------------------------------------------------------------------------------

    def watch(
        self, task_id: str, after: int, stop_at: StopAt, *, deltas: bool = False, timeout_s: float | None
    ) -> AsyncGenerator[list[RunEvent], None]:
        return limited_stream(self._watch_task(task_id, after, stop_at), timeout_s, self.url, task_id=task_id)

    async def _watch_task(self, task_id: str, after: int, stop_at: StopAt) -> AsyncGenerator[list[RunEvent], None]:
        link = self._link_of(task_id)
        if not link.task_id:
            for event in self._replay_reply(task_id, after):
                yield [event]
            return
        reading = self._find_reading(task_id, after) or Reading(task_id, (await self._peer.card()).own.name, after)
        reading.busy, self._seen[task_id] = True, reading
        ends = TERMINAL if stop_at is StopAt.TERMINAL else SETTLED
        try:
            async with aclosing(self._stream_updates(link, stop_at)) as updates:
                async for update in updates:
                    for event in self._events(reading, update):
                        yield [event]
                        if event.state in ends and stop_at is not StopAt.CURRENT:
                            return
                    if reading.fold.is_terminal:
                        return
        finally:
            self._close_reading(reading)
        if stop_at is not StopAt.CURRENT:
            raise self._incomplete_stream_error(task_id)

    def _replay_reply(self, task_id: str, after: int) -> list[RunEvent]:
        """Return the events of a task that the peer answered with a message only: the peer has no such task to read."""
        known = self._require_reading(task_id)
        if after >= known.sequence:
            return []
        return list(
            Reading(task_id, known.agent_name, after).read(view_of_task(known.fold.to_task()), self._remote_ids(known))
        )

    def _require_reading(self, task_id: str) -> Reading:
        known = self._peer.reading_of(task_id)
        if known is None:
            raise TaskNotFoundError(f"{self.url} responded without a task", task_id=task_id)
        return known

    def _find_reading(self, task_id: str, after: int) -> Reading | None:
        """Return a reading that ends exactly at `after`, or None if there is none and the reader has to begin again."""
        for reading in (self._seen.get(task_id), self._peer.reading_of(task_id)):
            if reading is not None and after and reading.sequence == after:
                return reading.for_new_reader()
        return None

    def _link_of(self, task_id: str) -> Link:
        """Return the peer's ids for a task that this client has sent; for any other, the id itself is taken as the peer's."""
        return self._peer.links.get(task_id) or Link(task_id)

    async def _stream_updates(self, link: Link, stop_at: StopAt) -> AsyncGenerator[Update, None]:
        """Yield the current task, then its updates. A task that cannot be subscribed to is polled."""
        interface = await self._peer.interface()
        if stop_at is StopAt.CURRENT:
            yield await self._read_view(interface, link)
            return
        if interface.can_subscribe:
            request = pb.SubscribeToTaskRequest(id=link.task_id, tenant=interface.tenant)
            try:
                async with aclosing(self._peer.stream(interface, "subscribe", request, link.task_id)) as updates:
                    first = True
                    async for update in updates:
                        if first and not isinstance(update, TaskView):
                            break  # without a snapshot, earlier changes are unknown
                        yield update
                        first = False
                    else:
                        return
            except ProtolinkError as error:
                if error.rule.retryable or isinstance(error, UnauthenticatedError | PermissionDeniedError):
                    raise
                # The task has ended, or the peer does not support subscriptions: reading the task tells which.
        delay = ExponentialDelay(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while True:
            view = await self._read_view(interface, link)
            yield view
            if view.status.state in TERMINAL:
                return
            await asyncio.sleep(delay.next_s())

    async def _read_view(self, interface: PeerInterface, link: Link) -> TaskView:
        request = pb.GetTaskRequest(id=link.task_id, tenant=interface.tenant)
        task = await self._peer.call(interface, "get_task", request, link.task_id)
        with a2a_errors(self.url, interface.grpc, task_id=link.task_id):
            return task_from_pb(tidy_task(task))

    async def get(self, task_id: str, timeout_s: float | None) -> Task:
        link = self._link_of(task_id)
        if not link.task_id:
            return self._require_reading(task_id).fold.to_task()
        async with time_limit(timeout_s, self.url, task_id=task_id):
            return await self._to_task(task_id, link, await self._read_view(await self._peer.interface(), link))

    async def _to_task(self, task_id: str, link: Link, view: TaskView) -> Task:
        reading = Reading(task_id, (await self._peer.card()).own.name)
        for _ in self._events(reading, view):
            pass
        self._peer.remember_link(task_id, Link(view.task_id, view.context_id or link.context_id))
        return reading.fold.to_task()

    async def list(self, wanted: ListFilter, timeout_s: float | None) -> TaskList:
        async with time_limit(timeout_s, self.url):
            interface = await self._peer.interface()
            page = await self._peer.call(interface, "list_tasks", build_list_request(wanted, interface.tenant))
            name = (await self._peer.card()).own.name
        with a2a_errors(self.url, interface.grpc):
            views = [task_from_pb(tidy_task(task)) for task in page.tasks]
        names = [self._peer.names.get(view.task_id) or view.task_id for view in views]
        tasks = [summary_of(view, task_id, name) for view, task_id in zip(views, names, strict=True)]
        return TaskList(tasks, page.next_page_token, page.total_size)

    # -- tasks of an earlier process -----------------------------------------------------------------------------------------

    @contextmanager
    def note_ids(self, task_id: str, note: Callable[[PeerTaskLinked], Awaitable[None]]) -> Iterator[None]:
        """Call `note` with the peer's ids of a task that is sent in this block, before any event of the task is yielded."""
        self._peer.notes[task_id] = note
        try:
            yield
        finally:
            self._peer.notes.pop(task_id, None)

    async def adopt(self, task: Task, link: PeerTaskLinked, timeout_s: float | None) -> bool:
        """Return whether the peer has the task that an earlier process sent as `task`. If so, it can be read under its id here.

        A peer may respond to a message before the turn begins. So a task that was continued and waits for input must have the
        message in its history; otherwise its question may be that of the turn before.

        Raises:
            ProtolinkError: The peer did not return the task.
        """
        is_continued = A2A_KEY in task.metadata
        async with time_limit(timeout_s, self.url, task_id=task.id):
            view = await self._read_view(await self._peer.interface(), Link(link.task_id))
        item = task.get_last_item()
        heard = {message.id for message in view.history or ()}
        if view.context_id != link.context_id or (
            is_continued and view.status.state in INTERRUPTED and (item is None or item.id not in heard)
        ):
            return False
        self._peer.remember_link(task.id, Link(link.task_id, link.context_id))
        return True

    # -- doing ---------------------------------------------------------------------------------------------------------------

    async def cancel(self, task_id: str, reason: str, timeout_s: float | None) -> Task:
        link = self._link_of(task_id)
        if not link.task_id:
            raise TaskNotCancelableError(
                f"task {self._require_reading(task_id).fold.task_id} has ended", task_id=task_id
            )
        async with time_limit(timeout_s, self.url, task_id=task_id):
            interface = await self._peer.interface()
            request = pb.CancelTaskRequest(id=link.task_id, tenant=interface.tenant)
            if reason:
                request.metadata["reason"] = reason
            task = await self._peer.call(interface, "cancel_task", request, link.task_id)
            with a2a_errors(self.url, interface.grpc, task_id=link.task_id):
                view = task_from_pb(tidy_task(task))
            return await self._to_task(task_id, link, view)

    # -- webhooks ------------------------------------------------------------------------------------------------------------

    async def set_push(self, config: PushConfig, timeout_s: float | None) -> PushConfig:
        """Register a webhook for `config.task_id` and return it with its id."""
        async with time_limit(timeout_s, self.url, task_id=config.task_id):
            interface, task_id = await self._peer.interface(), self._remote_id(config.task_id)
            request = push_config_pb(replace(config, task_id=task_id, tenant=interface.tenant))
            found = await self._peer.call(interface, "create_task_push_notification_config", request, task_id)
        return self._push_config(found, interface, config.task_id)

    async def get_push(self, task_id: str, config_id: str, timeout_s: float | None) -> PushConfig:
        async with time_limit(timeout_s, self.url, task_id=task_id):
            interface, remote_id = await self._peer.interface(), self._remote_id(task_id)
            request = pb.GetTaskPushNotificationConfigRequest(tenant=interface.tenant, task_id=remote_id, id=config_id)
            found = await self._peer.call(interface, "get_task_push_notification_config", request, remote_id)
        return self._push_config(found, interface, task_id)

    async def list_push(self, task_id: str, timeout_s: float | None) -> Sequence[PushConfig]:
        """Return all webhooks of a task; they are read page by page."""
        async with time_limit(timeout_s, self.url, task_id=task_id):
            interface, remote_id = await self._peer.interface(), self._remote_id(task_id)
            request = pb.ListTaskPushNotificationConfigsRequest(tenant=interface.tenant, task_id=remote_id)
            configs: _Configs = []
            while True:
                page = await self._peer.call(interface, "list_task_push_notification_configs", request, remote_id)
                configs += [self._push_config(found, interface, task_id) for found in page.configs]
                if not page.next_page_token or page.next_page_token == request.page_token:
                    return configs
                request.page_token = page.next_page_token

    async def delete_push(self, task_id: str, config_id: str, timeout_s: float | None) -> None:
        async with time_limit(timeout_s, self.url, task_id=task_id):
            interface, remote_id = await self._peer.interface(), self._remote_id(task_id)
            request = pb.DeleteTaskPushNotificationConfigRequest(
                tenant=interface.tenant, task_id=remote_id, id=config_id
            )
            await self._peer.call(interface, "delete_task_push_notification_config", request, remote_id)

    def _remote_id(self, task_id: str) -> str:
        """Return the peer's id of a task. Raises TaskNotFoundError: the peer answered with a message, without a task."""
        link = self._link_of(task_id)
        if not link.task_id:
            raise TaskNotFoundError(f"{self.url} responded without a task", task_id=task_id)
        return link.task_id

    def _push_config(self, found: pb.TaskPushNotificationConfig, interface: PeerInterface, task_id: str) -> PushConfig:
        with a2a_errors(self.url, interface.grpc, task_id=task_id):
            return replace(push_config_from_pb(found), task_id=task_id)

    async def call_tool(
        self, call: ToolCall, request_id: str, task_id: str, session_id: str, timeout_s: float | None
    ) -> CalledTool:
        """Send a task whose message is the tool call. Agents of this package execute it; others read it as data."""
        message = Message.tool_call(call.tool_name, call.args, call.call_id)
        task = replace(Task.create(message, session_id=session_id or None), id=task_id)
        done = (await self.send(task, request_id, wait=True, timeout_s=timeout_s)).task
        part = done.get_last_part()
        if part is not None and isinstance(part.content, ToolOutput):
            return CalledTool(part.content, done.id)
        return CalledTool(ToolOutput(call.call_id, done.raise_for_status().get_output()), done.id)


async def _next(responses: AsyncGenerator[_Response, None]) -> _Response | None:
    return await anext(responses, None)


async def _exhaust(events: AsyncGenerator[list[RunEvent], None]) -> None:
    async with aclosing(events):
        async for _ in events:
            pass


def _is_safe_to_repeat(error: ProtolinkError) -> bool:
    """Return whether the request did not arrive or was refused unread, so that it can be repeated."""
    return "unreached" in error.metadata or SAFE_TO_REPEAT in error.metadata


def _ids_of(update: Update) -> tuple[str, str]:
    return ("", update.context_id) if isinstance(update, MessageReply) else (update.task_id, update.context_id)
