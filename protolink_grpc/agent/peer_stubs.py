"""Generated stubs of users for calls to peers.

Each call finds the peer anew. Calls to a name rotate over its instances. Within a run, a call is an action of the run.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from google.protobuf.json_format import MessageToDict, MessageToJson
from google.protobuf.message import Message

from protolink_grpc.agent.peer_tasks import PeerTasks, marked_session, session_at
from protolink_grpc.agent.relay import Give, relay
from protolink_grpc.agent.trust import PeerConnection
from protolink_grpc.client.agent_access import CONNECT_S
from protolink_grpc.client.backoff import Backoff
from protolink_grpc.client.port import PLGRPC
from protolink_grpc.client.stub_calls import Note, StreamCall, UnaryCall, ignore_attempts
from protolink_grpc.client.typed_stub import (
    CallObserver,
    Entry,
    Metadata,
    StreamMethod,
    StubChannel,
    UnaryMethod,
    refuse_two_streams,
    stream_callable,
    unary_callable,
)
from protolink_grpc.client.uploads import Requests
from protolink_grpc.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    MessageTooLargeError,
    ProtolinkError,
    RemoteError,
)
from protolink_grpc.models.action import BudgetUsage
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.events import PeerTaskLinked
from protolink_grpc.models.payload import Payload, TypedMessage, read_value
from protolink_grpc.runtime.actions.delegation import MAY_HAVE_BEGUN, Actions
from protolink_grpc.runtime.actions.gate import AGENT_CALL
from protolink_grpc.runtime.actions.method_calls import MethodAnswer, call_method
from protolink_grpc.runtime.run import Run, current_run
from protolink_grpc.wire.typed_calls import (
    REQUEST_ID,
    RUN_OPTIONS,
    SESSION_ID,
    TASK_ID,
    USED,
    options_to_bytes,
    usage_from_bytes,
)
from protolink_grpc.wire.values import MAX_PREVIEW_BYTES

T = TypeVar("T")

OUTAGE_S: Final = 15.0
"""How long a call within a run is repeated for a server that ends each wait within a second, in seconds."""


class PeerChannel:
    """The channel of a stub for a peer, which is looked up at each call.

    Args:
        target: URL or name of the peer.
    """

    def __init__(self, target: str, tasks: PeerTasks, actions: Actions) -> None:
        self.target = target
        self._tasks = tasks
        self._actions = actions

    def unary_unary(self, path: str, *serializers: Any, **settings: Any) -> Callable[..., UnaryCall[Any]]:
        """As `grpc.aio.Channel.unary_unary`."""
        method = PeerMethod(self.target, self._tasks, path, serializers, settings)

        async def call(
            request: Message,
            *,
            timeout: float | None = None,
            metadata: Metadata = None,
            note: Note = ignore_attempts,
        ) -> Any:
            made, run = MethodRequest(request, timeout, tuple(metadata or ()), note), current_run()
            return await (method.call(made) if run is None else self._call_in_run(CallInRun(method, made, run)))

        return unary_callable(call)

    def stream_unary(self, path: str, *serializers: Any, **settings: Any) -> Callable[..., UnaryCall[Any]]:
        """As `grpc.aio.Channel.stream_unary`. Within a run, the requests are read to their end before the call."""
        method = PeerMethod(self.target, self._tasks, path, serializers, settings, takes_stream=True)

        async def call(
            requests: AsyncIterable[Message] | Iterable[Message],
            *,
            timeout: float | None = None,
            metadata: Metadata = None,
            note: Note = ignore_attempts,
        ) -> Any:
            run = current_run()
            if run is None:
                return await method.call(MethodRequest(requests, timeout, tuple(metadata or ()), note))
            made = MethodRequest(await read_requests(requests), timeout, tuple(metadata or ()), note)
            return await self._call_in_run(CallInRun(method, made, run))

        return unary_callable(call)

    async def _call_in_run(self, call: "CallInRun") -> Message:
        """Make a call with one response as an action of its run."""
        run, method = call.run, call.peer_method
        position = run.position(AGENT_CALL, self.target, [method.path, call.request])
        return method.read(await call_method(self._actions.gate, run, call, position=position))

    def unary_stream(self, path: str, *serializers: Any, **settings: Any) -> Callable[..., StreamCall[Any]]:
        """As `grpc.aio.Channel.unary_stream`."""
        method = PeerMethod(self.target, self._tasks, path, serializers, settings)

        async def call(
            request: Message,
            *,
            timeout: float | None = None,
            metadata: Metadata = None,
            note: Note = ignore_attempts,
        ) -> AsyncGenerator[Message, None]:
            made, run = MethodRequest(request, timeout, tuple(metadata or ()), note), current_run()
            if run is None:
                async with aclosing(method.stream(made)) as responses:
                    async for response in responses:
                        yield response
                return

            async def act(give: Give[Message]) -> None:
                within = StreamInRun(method, made, run, give)
                position = run.position(AGENT_CALL, self.target, [path, within.request])
                result = await call_method(self._actions.gate, run, within, position=position)
                if not within.was_sent:
                    for each in result[RESPONSES]:
                        await give(method.read(read_value(each)))

            async with aclosing(relay(act)) as responses:
                async for response in responses:
                    yield response

        return stream_callable(call)

    def stream_stream(self, path: str, *_: Any, **__: Any) -> Callable[..., Any]:
        """Streams in both directions are not supported: a call raises UnimplementedError."""
        return refuse_two_streams(path)


@dataclass(frozen=True, slots=True)
class MethodRequest:
    """What a caller gave to a method of a stub.

    Args:
        message: The request, or the requests of a stream.
        timeout: Seconds; None means the default.
        note: Receives each attempt.
    """

    message: Any
    timeout: float | None
    metadata: tuple[Entry, ...]
    note: Note = ignore_attempts


class PeerMethod:
    """One method of a peer, at any of its instances.

    Args:
        serializers: Arguments of the generated stub, with `settings`.
        takes_stream: The request is a stream.
    """

    def __init__(
        self,
        target: str,
        tasks: PeerTasks,
        path: str,
        serializers: tuple[Any, ...],
        settings: dict[str, Any],
        *,
        takes_stream: bool = False,
    ) -> None:
        self._takes_stream = takes_stream
        self.target = target
        self.path = path
        self.tasks = tasks
        self._serializers = serializers
        self._settings = settings
        # A positional argument or one with a name, as for `grpc.aio.Channel.unary_unary`.
        self._deserialize: Any = settings.get("response_deserializer") or serializers[1]
        self._channels: dict[tuple[str, bool], StubChannel] = {}
        self._unary: dict[tuple[str, bool], UnaryMethod] = {}

    def channel(self, peer: PeerConnection) -> StubChannel:
        """Return the channel of an instance. Raises InvalidArgumentError if its URL is not one of gRPC."""
        return _get_or_make(self._channels, peer, lambda: peer.client.stub_channel(peer.url, timeout_s=None))

    def unary_at(self, peer: PeerConnection) -> UnaryMethod:
        """Return the method of an instance, if it has one response. Raises InvalidArgumentError as `channel`."""
        channel = self.channel(peer)
        make = channel.upload_method if self._takes_stream else channel.unary_method
        return _get_or_make(self._unary, peer, lambda: make(self.path, *self._serializers, **self._settings))

    def stream_at(self, peer: PeerConnection) -> StreamMethod:
        """Return the method of an instance, if its responses are a stream. Raises InvalidArgumentError as `channel`."""
        return self.channel(peer).stream_method(self.path, *self._serializers, **self._settings)

    async def connect(self, url: str) -> PeerConnection:
        """Return the instance at a URL if it can be connected to, or else another one; the first one if none can."""
        first = await self.tasks.peers.reach(self.target, url)
        if "://" in self.target or await self.channel(first).connect(CONNECT_S):
            return first
        for other in await self.tasks.peers.instances(self.target):
            peer = await self.tasks.peers.reach(self.target, other)
            if other != url and await self.channel(peer).connect(CONNECT_S):
                return peer
        return first

    async def _find(self, request: MethodRequest) -> PeerConnection:
        """Return the instance for a call that belongs to no run: the one that has received its request id, or else the next one."""
        request_id = next((str(value) for key, value in request.metadata if key.lower() == REQUEST_ID), "")
        receiver = self.tasks.peers.receiver(self.target, request_id) if request_id else None
        if receiver is not None:
            return await self.tasks.peers.reach(self.target, receiver)
        peer = await self.connect(await self.tasks.peers.choose_instance(self.target))
        if request_id and "://" not in self.target and await self.channel(peer).connect(CONNECT_S):
            self.tasks.peers.remember_receiver(self.target, request_id, peer.url)
        return peer

    async def call(self, request: MethodRequest) -> Any:
        """Make a unary call that belongs to no run."""
        peer = await self._find(request)
        limit = peer.client.timeout if request.timeout is None else request.timeout
        with peer.explain_refusals():
            method = self.unary_at(peer)
            return await method.call(request.message, timeout=limit, metadata=request.metadata, note=request.note)

    async def stream(self, request: MethodRequest) -> AsyncGenerator[Message, None]:
        """Make a call that belongs to no run, and yield its responses."""
        peer = await self._find(request)
        method, metadata = self.stream_at(peer), request.metadata
        call = method.call(request.message, timeout=request.timeout, metadata=metadata, note=request.note)
        with peer.explain_refusals():
            async with aclosing(call) as responses:
                async for response in responses:
                    yield response

    def read(self, response: Any) -> Message:
        """Return the message of a recorded response."""
        if not isinstance(response, Payload) or not isinstance(response.value, TypedMessage):
            raise InvalidArgumentError("is not a typed message", field="response")
        message: Message = self._deserialize(response.value.value)
        return message


class CallInRun:
    """A unary call within a run: the `MethodCall` of its action. Without a timeout, it waits until the call's task ends.

    Raises:
        InvalidArgumentError: The metadata has an entry that the run sets.
    """

    def __init__(self, method: PeerMethod, request: MethodRequest, run: Run) -> None:
        for key, _ in request.metadata:
            if key.lower() in _OF_THE_RUN:
                raise InvalidArgumentError("is set by the run", field=f"metadata[{key}]")
        self.agent = method.target
        self.method = method.path
        sent = request.message
        self.request = {REQUESTS: [*map(request_json, sent)]} if isinstance(sent, list) else request_json(sent)
        self._method = method
        self._given = request
        self._run = run
        self._peer: PeerConnection | None = None

    @property
    def run(self) -> Run:
        return self._run

    @property
    def peer_method(self) -> PeerMethod:
        return self._method

    async def choose_instance(self) -> str:
        return await self._method.tasks.peers.choose_instance(self.agent)

    async def connect(self, url: str) -> str:
        self._peer = await self._method.connect(url)
        return self._peer.url

    async def send(self, url: str, action_id: str, context: RunContext) -> MethodAnswer:
        peer, observer = self._peer, CallObserver(note=self._given.note)
        metadata: tuple[Entry, ...] = ()
        if peer is None or peer.url != url:
            peer = await self._method.tasks.peers.reach(self.agent, url)
        try:
            metadata = self._metadata_of(action_id, peer, context)
            with peer.explain_refusals():
                result = await self._exchange(peer, metadata, observer)
            return MethodAnswer(result, _usage(observer), link=self._link(peer, metadata, observer))
        except ProtolinkError as error:
            return MethodAnswer(None, _usage(observer, error), error, self._link(peer, metadata, observer))
        except BaseException:
            if self._run.token.is_cancelled:
                self._method.tasks.cancel_task(peer, action_id, self._run.token.reason)
            raise

    async def _exchange(self, peer: PeerConnection, metadata: tuple[Entry, ...], observer: CallObserver) -> Any:
        """Make the call and return its result.

        Without a timeout, it is repeated if the server ends the wait: the request id finds the same task.
        """
        backoff = Backoff(OUTAGE_S, streams=True)
        given = self._given
        while True:
            backoff.begin()
            try:
                call = self._method.unary_at(peer).call_observed
                return _typed_payload(await call(given.message, observer, timeout=given.timeout, metadata=metadata))
            except DeadlineExceededError as error:
                if given.timeout is not None:
                    raise
                await backoff.wait_after(error)

    def _link(self, peer: PeerConnection, metadata: tuple[Entry, ...], observer: CallObserver) -> PeerTaskLinked | None:
        """Return the ids of the call's task; None if no response has named it."""
        task_id = observer.headers.get(TASK_ID)
        if not isinstance(task_id, str):
            return None
        session = next((str(value) for key, value in metadata if key == SESSION_ID), "")
        name = "" if "://" in self.agent else self.agent
        return PeerTaskLinked(name, peer.url, PLGRPC, task_id, session)

    def _metadata_of(self, action_id: str, peer: PeerConnection, context: RunContext) -> tuple[Entry, ...]:
        ids: tuple[Entry, ...] = ((REQUEST_ID, action_id), (TASK_ID, action_id))
        if context.session_id:
            session = session_at(peer, self._run.principal, context.session_id)
            if not session.isascii():  # metadata is ASCII; the mark alone is unique
                session = marked_session(self._run.principal, session).encode("ascii", "ignore").decode()
            ids = (*ids, (SESSION_ID, session))
        return (*self._given.metadata, *ids, (RUN_OPTIONS, options_to_bytes(context)))


class StreamInRun(CallInRun):
    """A call within a run whose responses are a stream.

    Args:
        give: Called with each response.

    Attributes:
        was_sent: The call was sent, so that `give` has got its responses.
    """

    was_sent = False

    def __init__(self, method: PeerMethod, request: MethodRequest, run: Run, give: Give[Message]) -> None:
        super().__init__(method, request, run)
        self._give = give

    async def _exchange(self, peer: PeerConnection, metadata: tuple[Entry, ...], observer: CallObserver) -> Any:
        """Make the call, and return its responses as JSON.

        Raises:
            MessageTooLargeError: The responses have more bytes than the log takes in one event.
        """
        self.was_sent = True
        recorded: list[Any] = []
        size = 0
        call = self._method.stream_at(peer).call_observed
        stream = call(self._given.message, observer, timeout=self._given.timeout, metadata=metadata)
        async with aclosing(stream) as responses:
            async for response in responses:
                size += response.ByteSize() + RESPONSE_BYTES
                if size > MAX_STREAM_BYTES:
                    raise MessageTooLargeError(
                        f"has more than {MAX_STREAM_BYTES} bytes, the limit of a stream within a run",
                        field="responses",
                    )
                recorded.append(_typed_payload(response, has_preview=False).to_dict())
                await self._give(response)
        return {RESPONSES: recorded}


REQUESTS: Final = "requests"
"""Key of the requests of a stream in what policies and approvers see."""

RESPONSES: Final = "responses"
"""Key of a stream's responses in the result of its action."""

MAX_STREAM_BYTES: Final = 2 << 20
"""Limit of the requests, and of the responses, of a stream within a run: base64 in JSON, they fit into one event."""

RESPONSE_BYTES: Final = 128
"""Bytes that are counted for each response beside its own, for its type name and JSON."""

_OF_THE_RUN = frozenset({REQUEST_ID, TASK_ID, SESSION_ID, RUN_OPTIONS})

MAX_INSTANCES = 64
"""Maximum number of instances whose channels and methods a stub keeps."""


def _get_or_make(made: dict[tuple[str, bool], T], peer: PeerConnection, make: Callable[[], T]) -> T:
    """Return what was made for an instance, or make it."""
    key = (peer.url, peer.withheld)
    found = made.get(key)
    if found is None:
        while len(made) >= MAX_INSTANCES:
            del made[next(iter(made))]
        found = made[key] = make()
    return found


async def read_requests(requests: AsyncIterable[Message] | Iterable[Message]) -> list[Message]:
    """Return the requests of a stream within a run.

    Raises:
        MessageTooLargeError: They have more bytes than the log takes in one event.
    """
    found: list[Message] = []
    size = 0
    async with Requests(requests) as source:
        async for each in source.attempt():
            size += each.ByteSize() + RESPONSE_BYTES
            if size > MAX_STREAM_BYTES:
                raise MessageTooLargeError(
                    f"has more than {MAX_STREAM_BYTES} bytes, the limit of a stream within a run", field="requests"
                )
            found.append(each)
    return found


def request_json(message: Message) -> Any:
    """Return a request as ProtoJSON with the names of the .proto file, for policies and approvers.

    A message that has no JSON, for instance an `Any` of an unknown type, is the JSON form of a typed payload.
    """
    try:
        return MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    except (TypeError, ValueError):
        return Payload(TypedMessage(message.DESCRIPTOR.full_name, message.SerializeToString())).to_dict()


def _typed_payload(message: Message, *, has_preview: bool = True) -> Payload:
    preview = ""
    if has_preview and message.ByteSize() <= MAX_PREVIEW_BYTES:
        with suppress(TypeError, ValueError):
            preview = MessageToJson(message, preserving_proto_field_name=True, indent=None)
    cut = preview.encode()[:MAX_PREVIEW_BYTES].decode(errors="ignore")
    return Payload(TypedMessage(message.DESCRIPTOR.full_name, message.SerializeToString()), preview=cut)


def _usage(observer: CallObserver, error: ProtolinkError | None = None) -> BudgetUsage | None:
    """Return the usage of a call; None if it is unknown. A call without a task has used nothing."""
    stated = observer.headers.get(USED)
    if isinstance(stated, bytes):
        return usage_from_bytes(stated)
    if not observer.may_have_arrived:
        return BudgetUsage()
    # Agents name the task in each response, also in errors.
    is_unknown = TASK_ID in observer.headers or observer.was_interrupted or _may_have_begun(error)
    return None if is_unknown else BudgetUsage()


def _may_have_begun(error: ProtolinkError | None) -> bool:
    if isinstance(error, RemoteError):
        return error.code in _UNCLEAR_CODES  # other codes were chosen by the method
    return isinstance(error, MAY_HAVE_BEGUN)


_UNCLEAR_CODES = frozenset({"CANCELLED", "DEADLINE_EXCEEDED", "INTERNAL", "UNAVAILABLE", "UNKNOWN"})
