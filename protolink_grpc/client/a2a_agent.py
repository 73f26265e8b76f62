"""One A2A agent as a peer: our verbs over the official client, whatever its binding and version.

A2A names tasks itself and numbers nothing. A task keeps its id here; which A2A task that is stands in `metadata["a2a"]`, so that
another process can continue it. What streams show is a reading of snapshots and updates: after a cut, the next snapshot is
compared with what was shown.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from a2a.types import a2a_pb2 as pb

from protolink_grpc.a2a.pb_codec import push_config_from_pb, push_config_pb, task_from_pb, update_from_pb
from protolink_grpc.a2a.values import MessageReply, PushConfig, TaskView, Update
from protolink_grpc.client.a2a_messages import list_request_of, request_of, summary_of, tidied, tidied_task
from protolink_grpc.client.a2a_peer import A2APeer, Link
from protolink_grpc.client.a2a_way import Way, a2a_errors
from protolink_grpc.client.foreign_reading import Reading, view_of_task
from protolink_grpc.client.http_channel import SAFE_TO_REPEAT
from protolink_grpc.client.no_control import WithoutControl
from protolink_grpc.client.patience import paced, within
from protolink_grpc.client.pauses import Pauses
from protolink_grpc.client.port import CalledTool, ListFilter, Sent, TaskList
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
from protolink_grpc.models.events import RunEvent
from protolink_grpc.models.lifecycle import INTERRUPTED, TERMINAL
from protolink_grpc.models.message import Message
from protolink_grpc.models.part import ToolCall, ToolOutput
from protolink_grpc.models.task import Task
from protolink_grpc.runtime.submission import StopAt, TaskTarget, finished_error

KIND: Final = "an A2A agent"
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 3.0
"""Between two looks at a task that cannot be subscribed to: doubling."""

OUTAGE_S = 60.0
"""How long a peer may be away while an answer is waited for."""

LAST_WORD_S = 1.0
"""How long whoever does not wait for an answer any more still waits for its beginning."""

_SETTLED = TERMINAL | INTERRUPTED


_Answer = tuple[Update, bool]
_Configs = list[PushConfig]  # below, `list` is a verb


class A2AAgent(WithoutControl):
    """The agent behind an A2A card. Making one costs nothing: what is known of the peer is shared."""

    def __init__(self, peer: A2APeer) -> None:
        super().__init__(peer.url, KIND)
        self._peer = peer
        # What the reader of this very port has seen: another reader's is about the same, but not the same.
        self._seen: dict[str, Reading] = {}

    async def card(self, timeout_s: float | None) -> AgentCard:
        async with within(timeout_s, self.url):
            return (await self._peer.card(asked=True)).own

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
        self._refuse_expected(expected)
        must_exist = target is TaskTarget.CONTINUE
        # The rest of it is nowhere: not in the request, and not remembered.
        partial = must_exist and self._peer.reading_of(task.id) is None
        async with within(timeout_s, self.url, task_id=task.id):
            await self._sent(task, request_id, must_exist=must_exist, wait=wait)
        fold = self._seen[task.id].fold
        if partial:
            return Sent(fold.to_task(turn=True), -1, -1)
        return Sent(fold.to_task(turn=True), len(fold.messages), len(fold.artifacts))

    async def _sent(self, task: Task, request_id: str, *, must_exist: bool, wait: bool) -> None:
        """Send a task, again under the same idempotency key where a peer that knows those was cut off."""
        pauses = Pauses(OUTAGE_S)
        while True:
            pauses.begin()
            turn = self._turn(task, request_id, must_exist=must_exist, at_once=not wait)
            try:
                await (self._through(task.id, turn) if wait else _exhausted(turn))
                return
            except UnavailableError as error:
                if task.id in self._seen or not self._peer.knows_keys:
                    raise  # what was begun is watched, not sent again
                await pauses.after(error)

    async def _through(self, task_id: str, events: AsyncGenerator[list[RunEvent], None]) -> None:
        """To the end of the turn, through cuts."""
        pauses = Pauses(OUTAGE_S)
        while True:
            pauses.begin()
            try:
                async with aclosing(events):
                    async for _ in events:
                        pauses.reset()
                return
            except ProtolinkError as error:
                seen = self._seen.get(task_id)
                if seen is None or not error.rule.retryable:
                    raise
                await pauses.after(error)
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
        self._refuse_expected(expected)
        turn = self._turn(task, request_id, must_exist=target is TaskTarget.CONTINUE)
        return paced(turn, timeout_s, self.url, task_id=task.id)

    async def _turn(
        self, task: Task, request_id: str, *, must_exist: bool, at_once: bool = False
    ) -> AsyncGenerator[list[RunEvent], None]:
        """The events of a turn, from the first answer on.

        Args:
            at_once: It is enough that the peer has accepted.

        Raises:
            UncertainExecutionError: Cut before the first answer: nobody knows whether it began, and sending again might begin
                another one.
            UnavailableError: Cut later, or it ended before the turn did: to be watched. Or cut before the first answer of a peer
                that knows idempotency keys: to be sent again with the same request id.
        """
        link = self._peer.link_of(task)
        if link is None and must_exist:
            raise TaskNotFoundError(f"{self.url} was not given task {task.id} by this client", task_id=task.id)
        if task.is_terminal and (link is None or not link.task_id):
            raise finished_error(task.state)  # A2A's messages do not say where a task stands
        reading: Reading | None = None
        try:
            async with aclosing(self._answers(task, link or Link(), request_id, at_once)) as answers:
                answer = await self._first(task.id, answers)
                while answer is not None:
                    update, stale = answer
                    if reading is None:
                        reading = await self._opened(task, link, update)
                        for event in reading.begin(task, self._said(reading)):
                            yield [event]
                    for event in self._events(reading, update, stale):
                        yield [event]
                        if event.state in _SETTLED:
                            return
                    answer = await anext(answers, None)
        except (UnavailableError, DeadlineExceededError) as error:
            can_repeat = isinstance(error, UnavailableError) and self._peer.knows_keys
            if reading is None and not can_repeat and not _is_harmless(error):
                raise UncertainExecutionError(
                    f"{error}; whether it has begun task {task.id} is not known", task_id=task.id, url=self.url
                ) from None
            raise
        finally:
            if reading is not None:
                self._left(reading)
        if not at_once:
            raise self._ended_early(task.id)

    async def _first(self, task_id: str, answers: AsyncGenerator[_Answer, None]) -> _Answer | None:
        """The first answer. It says what the task is called there, without which nobody can cancel it: whoever stops waiting
        learns that still, if it comes at once."""
        coming: asyncio.Task[_Answer | None] = asyncio.ensure_future(_next(answers))
        try:
            return await asyncio.shield(coming)
        except asyncio.CancelledError:
            await asyncio.wait([coming], timeout=LAST_WORD_S)
            answer = coming.result() if coming.done() and coming.exception() is None else None
            if answer is not None:
                self._peer.note(task_id, Link(*_names(answer[0])))
            raise
        finally:
            if not coming.done():
                coming.cancel()
                await asyncio.wait([coming])

    async def _answers(self, task: Task, link: Link, request_id: str, at_once: bool) -> AsyncGenerator[_Answer, None]:
        """The peer's answers to a message, each with whether it may be from before the message."""
        way = await self._peer.way()
        request = request_of(task, task_id=link.task_id, context_id=link.context_id, tenant=way.tenant, at_once=at_once)
        if at_once or not way.streaming:
            response = await self._peer.ask(way, "send_message", request, task.id, key=request_id)
            with a2a_errors(self.url, way.grpc, task_id=task.id):
                update = update_from_pb(tidied(response))
            yield update, False
            return
        first = bool(link.task_id)
        stream = self._peer.follow(way, "send_message_streaming", request, task.id, key=request_id)
        async with aclosing(stream) as updates:
            async for update in updates:
                yield update, first
                first = False

    async def _opened(self, task: Task, link: Link | None, update: Update) -> Reading:
        known = self._peer.reading_of(task.id) if link is not None else None
        reading = known.free() if known is not None else Reading(task.id, (await self._peer.card()).own.name)
        reading.busy = True
        reading.remote_id, reading.context_id = _names(update)
        self._peer.note(task.id, Link(reading.remote_id, reading.context_id))
        self._seen[task.id] = reading
        return reading

    def _said(self, reading: Reading) -> Mapping[str, Any]:
        """What the task says of itself, for whoever continues it."""
        if not reading.remote_id and not reading.context_id:
            return {}
        names = {"task_id": reading.remote_id, "context_id": reading.context_id, "url": self.url}
        return {key: value for key, value in names.items() if value}

    def _events(self, reading: Reading, update: Update, stale: bool = False) -> Iterator[RunEvent]:
        remote_id, context_id = _names(update)
        reading.remote_id = reading.remote_id or remote_id
        reading.context_id = reading.context_id or context_id
        return reading.read(update, self._said(reading), stale=stale)

    def _left(self, reading: Reading) -> None:
        reading.busy = False
        self._peer.keep(reading)

    def _ended_early(self, task_id: str) -> UnavailableError:
        return UnavailableError(f"{self.url} ended a stream before its task", url=self.url, task_id=task_id)

    # -- reading -------------------------------------------------------------------------------------------------------------

    def watch(
        self, task_id: str, after: int, stop_at: StopAt, *, deltas: bool = False, timeout_s: float | None
    ) -> AsyncGenerator[list[RunEvent], None]:
        return paced(self._watched(task_id, after, stop_at), timeout_s, self.url, task_id=task_id)

    async def _watched(self, task_id: str, after: int, stop_at: StopAt) -> AsyncGenerator[list[RunEvent], None]:
        link = self._link(task_id)
        if not link.task_id:
            for event in self._told(task_id, after):
                yield [event]
            return
        reading = self._resumed(task_id, after) or Reading(task_id, (await self._peer.card()).own.name, after)
        reading.busy, self._seen[task_id] = True, reading
        ends = TERMINAL if stop_at is StopAt.TERMINAL else _SETTLED
        try:
            async with aclosing(self._updates(link, stop_at)) as updates:
                async for update in updates:
                    for event in self._events(reading, update):
                        yield [event]
                        if event.state in ends and stop_at is not StopAt.CURRENT:
                            return
                    if reading.fold.is_terminal:
                        return
        finally:
            self._left(reading)
        if stop_at is not StopAt.CURRENT:
            raise self._ended_early(task_id)

    def _told(self, task_id: str, after: int) -> list[RunEvent]:
        """The events of a task that was answered with a message alone: there is nothing to ask for."""
        known = self._answered(task_id)
        if after >= known.sequence:
            return []
        return list(
            Reading(task_id, known.agent_name, after).read(view_of_task(known.fold.to_task()), self._said(known))
        )

    def _answered(self, task_id: str) -> Reading:
        known = self._peer.reading_of(task_id)
        if known is None:
            raise TaskNotFoundError(f"{self.url} answered without a task", task_id=task_id)
        return known

    def _resumed(self, task_id: str, after: int) -> Reading | None:
        """The reading that ends exactly there; None where a reader has to begin anew."""
        for reading in (self._seen.get(task_id), self._peer.reading_of(task_id)):
            if reading is not None and after and reading.sequence == after:
                return reading.free()
        return None

    def _link(self, task_id: str) -> Link:
        """The A2A task of that id: one that this client has sent, or an id of the peer's own."""
        return self._peer.links.get(task_id) or Link(task_id)

    async def _updates(self, link: Link, stop_at: StopAt) -> AsyncGenerator[Update, None]:
        """The task as it is, then how it changes; by looking again and again where it cannot be subscribed to."""
        way = await self._peer.way()
        if stop_at is StopAt.CURRENT:
            yield await self._view(way, link)
            return
        if way.can_subscribe:
            request = pb.SubscribeToTaskRequest(id=link.task_id, tenant=way.tenant)
            try:
                async with aclosing(self._peer.follow(way, "subscribe", request, link.task_id)) as updates:
                    first = True
                    async for update in updates:
                        if first and not isinstance(update, TaskView):
                            break  # without a snapshot, what came before is not known
                        yield update
                        first = False
                    else:
                        return
            except ProtolinkError as error:
                if error.rule.retryable or isinstance(error, UnauthenticatedError | PermissionDeniedError):
                    raise
                # It has ended, or this peer does not do that: a look tells.
        pause_s = FIRST_PAUSE_S
        while True:
            view = await self._view(way, link)
            yield view
            if view.status.state in TERMINAL:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _view(self, way: Way, link: Link) -> TaskView:
        request = pb.GetTaskRequest(id=link.task_id, tenant=way.tenant)
        task = await self._peer.ask(way, "get_task", request, link.task_id)
        with a2a_errors(self.url, way.grpc, task_id=link.task_id):
            return task_from_pb(tidied_task(task))

    async def get(self, task_id: str, timeout_s: float | None) -> Task:
        link = self._link(task_id)
        if not link.task_id:
            return self._answered(task_id).fold.to_task()
        async with within(timeout_s, self.url, task_id=task_id):
            return await self._shown(task_id, link, await self._view(await self._peer.way(), link))

    async def _shown(self, task_id: str, link: Link, view: TaskView) -> Task:
        reading = Reading(task_id, (await self._peer.card()).own.name)
        for _ in self._events(reading, view):
            pass
        self._peer.note(task_id, Link(view.task_id, view.context_id or link.context_id))
        return reading.fold.to_task()

    async def list(self, wanted: ListFilter, timeout_s: float | None) -> TaskList:
        async with within(timeout_s, self.url):
            way = await self._peer.way()
            page = await self._peer.ask(way, "list_tasks", list_request_of(wanted, way.tenant))
            name = (await self._peer.card()).own.name
        with a2a_errors(self.url, way.grpc):
            views = [task_from_pb(tidied_task(task)) for task in page.tasks]
        names = [self._peer.names.get(view.task_id) or view.task_id for view in views]
        tasks = [summary_of(view, task_id, name) for view, task_id in zip(views, names, strict=True)]
        return TaskList(tasks, page.next_page_token, page.total_size)

    # -- doing ---------------------------------------------------------------------------------------------------------------

    async def cancel(self, task_id: str, reason: str, timeout_s: float | None) -> Task:
        link = self._link(task_id)
        if not link.task_id:
            raise TaskNotCancelableError(f"task {self._answered(task_id).fold.task_id} has ended", task_id=task_id)
        async with within(timeout_s, self.url, task_id=task_id):
            way = await self._peer.way()
            request = pb.CancelTaskRequest(id=link.task_id, tenant=way.tenant)
            if reason:
                request.metadata["reason"] = reason
            task = await self._peer.ask(way, "cancel_task", request, link.task_id)
            with a2a_errors(self.url, way.grpc, task_id=link.task_id):
                view = task_from_pb(tidied_task(task))
            return await self._shown(task_id, link, view)

    # -- webhooks ------------------------------------------------------------------------------------------------------------

    async def set_push(self, config: PushConfig, timeout_s: float | None) -> PushConfig:
        """Register a webhook for `config.task_id`, and show it with its id."""
        async with within(timeout_s, self.url, task_id=config.task_id):
            way, task_id = await self._peer.way(), self._remote_id(config.task_id)
            request = push_config_pb(replace(config, task_id=task_id, tenant=way.tenant))
            found = await self._peer.ask(way, "create_task_push_notification_config", request, task_id)
        return self._push_config(found, way, config.task_id)

    async def get_push(self, task_id: str, config_id: str, timeout_s: float | None) -> PushConfig:
        async with within(timeout_s, self.url, task_id=task_id):
            way, remote_id = await self._peer.way(), self._remote_id(task_id)
            request = pb.GetTaskPushNotificationConfigRequest(tenant=way.tenant, task_id=remote_id, id=config_id)
            found = await self._peer.ask(way, "get_task_push_notification_config", request, remote_id)
        return self._push_config(found, way, task_id)

    async def list_push(self, task_id: str, timeout_s: float | None) -> Sequence[PushConfig]:
        """All of them, page by page."""
        async with within(timeout_s, self.url, task_id=task_id):
            way, remote_id = await self._peer.way(), self._remote_id(task_id)
            request = pb.ListTaskPushNotificationConfigsRequest(tenant=way.tenant, task_id=remote_id)
            configs: _Configs = []
            while True:
                page = await self._peer.ask(way, "list_task_push_notification_configs", request, remote_id)
                configs += [self._push_config(found, way, task_id) for found in page.configs]
                if not page.next_page_token or page.next_page_token == request.page_token:
                    return configs
                request.page_token = page.next_page_token

    async def delete_push(self, task_id: str, config_id: str, timeout_s: float | None) -> None:
        async with within(timeout_s, self.url, task_id=task_id):
            way, remote_id = await self._peer.way(), self._remote_id(task_id)
            request = pb.DeleteTaskPushNotificationConfigRequest(tenant=way.tenant, task_id=remote_id, id=config_id)
            await self._peer.ask(way, "delete_task_push_notification_config", request, remote_id)

    def _remote_id(self, task_id: str) -> str:
        """What the peer calls a task. Raises TaskNotFoundError: it answered without a task."""
        link = self._link(task_id)
        if not link.task_id:
            raise TaskNotFoundError(f"{self.url} answered without a task", task_id=task_id)
        return link.task_id

    def _push_config(self, found: pb.TaskPushNotificationConfig, way: Way, task_id: str) -> PushConfig:
        with a2a_errors(self.url, way.grpc, task_id=task_id):
            return replace(push_config_from_pb(found), task_id=task_id)

    async def call_tool(
        self, call: ToolCall, request_id: str, task_id: str, session_id: str, timeout_s: float | None
    ) -> CalledTool:
        """A task whose message is the call: agents of this package run it, others read it as data."""
        message = Message.tool_call(call.tool_name, call.args, call.call_id)
        task = replace(Task.create(message, session_id=session_id or None), id=task_id)
        done = (await self.send(task, request_id, wait=True, timeout_s=timeout_s)).task
        part = done.get_last_part()
        if part is not None and isinstance(part.content, ToolOutput):
            return CalledTool(part.content, done.id)
        return CalledTool(ToolOutput(call.call_id, done.raise_for_status().get_output()), done.id)


async def _next(answers: AsyncGenerator[_Answer, None]) -> _Answer | None:
    return await anext(answers, None)


async def _exhausted(events: AsyncGenerator[list[RunEvent], None]) -> None:
    async with aclosing(events):
        async for _ in events:
            pass


def _is_harmless(error: ProtolinkError) -> bool:
    """The request did not arrive, or was turned away unread."""
    return "unreached" in error.metadata or SAFE_TO_REPEAT in error.metadata


def _names(update: Update) -> tuple[str, str]:
    return ("", update.context_id) if isinstance(update, MessageReply) else (update.task_id, update.context_id)
