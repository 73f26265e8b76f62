"""Generated stubs of users for calls to peers.

Each call finds the peer anew. Calls to a name rotate over its instances. Within a run, a call is an action of the run.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NoReturn

from google.protobuf.json_format import MessageToDict, MessageToJson
from google.protobuf.message import Message

from protolink_grpc.agent.peers import Peers, marked_session
from protolink_grpc.agent.trust import PeerConnection
from protolink_grpc.client.agent_access import CONNECT_S
from protolink_grpc.client.backoff import Backoff
from protolink_grpc.client.typed_stub import CallObserver, Entry, Metadata, StubChannel, UnaryMethod
from protolink_grpc.errors import (
    DeadlineExceededError,
    DelegationCycleError,
    InvalidArgumentError,
    PermissionDeniedError,
    ProtolinkError,
    ResourceExhaustedError,
    TaskAlreadyExistsError,
    ToolRejectedError,
    UnauthenticatedError,
    UnimplementedError,
)
from protolink_grpc.models.action import BudgetUsage
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.payload import Payload, TypedMessage
from protolink_grpc.runtime.actions.delegation import Actions
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

OUTAGE_S: Final = 15.0
"""How long a call within a run is repeated for a server that ends each wait within a second, in seconds."""

REFUSALS = (
    DelegationCycleError,
    InvalidArgumentError,
    PermissionDeniedError,
    ResourceExhaustedError,
    TaskAlreadyExistsError,
    ToolRejectedError,
    UnauthenticatedError,
    UnimplementedError,
)
"""Errors of calls that had no effect, if the response does not have their usage."""


class PeerChannel:
    """The channel of a stub for a peer, which is looked up at each call.

    Args:
        target: URL or name of the peer.
    """

    def __init__(self, target: str, peers: Peers, actions: Actions) -> None:
        self.target = target
        self._peers = peers
        self._actions = actions

    def unary_unary(self, path: str, *serializers: Any, **settings: Any) -> Callable[..., Any]:
        """As `grpc.aio.Channel.unary_unary`."""
        method = PeerMethod(self.target, self._peers, path, serializers, settings)

        async def call(request: Message, *, timeout: float | None = None, metadata: Metadata = None) -> Any:
            run, own = current_run(), tuple(metadata or ())
            if run is None:
                return await method.call(request, timeout, own)
            within = CallInRun(method, request, timeout, own, run)
            position = run.position(AGENT_CALL, self.target, [path, within.request])
            response = await call_method(self._actions.gate, run, within, position=position)
            return method.read(response)

        return call

    def unary_stream(self, path: str, *_: Any, **__: Any) -> Callable[..., Any]:
        """Streams are not supported yet: a call raises UnimplementedError."""

        def call(*_: Any, **__: Any) -> NoReturn:
            raise UnimplementedError(f"{path} is a stream, which stubs of peers do not support yet")

        return call

    stream_unary = stream_stream = unary_stream


class PeerMethod:
    """One unary method of a peer, at any of its instances.

    Args:
        serializers: Arguments of the generated stub, with `settings`.
    """

    def __init__(
        self, target: str, peers: Peers, path: str, serializers: tuple[Any, ...], settings: dict[str, Any]
    ) -> None:
        self.target = target
        self.path = path
        self.peers = peers
        self._serializers = serializers
        self._settings = settings
        # A positional argument or one with a name, as for `grpc.aio.Channel.unary_unary`.
        self._deserialize: Any = settings.get("response_deserializer") or serializers[1]
        # By URL: the connection and its method, made once.
        self._made: dict[tuple[str, bool], tuple[StubChannel, UnaryMethod]] = {}

    def at(self, peer: PeerConnection) -> tuple[StubChannel, UnaryMethod]:
        """Return the channel and the method of an instance. Raises InvalidArgumentError if its URL is not one of gRPC."""
        key = (peer.url, peer.withheld)
        made = self._made.get(key)
        if made is None:
            channel = peer.client.stub_channel(peer.url, timeout_s=None)
            made = channel, channel.unary_method(self.path, *self._serializers, **self._settings)
            while len(self._made) >= MAX_INSTANCES:
                del self._made[next(iter(self._made))]
            self._made[key] = made
        return made

    async def connect(self, url: str) -> PeerConnection:
        """Return the instance at a URL if it can be connected to, or else another one; the first one if none can."""
        first = await self.peers.reach(self.target, url)
        if "://" in self.target or await self.at(first)[0].connect(CONNECT_S):
            return first
        for other in await self.peers.instances(self.target):
            peer = await self.peers.reach(self.target, other)
            if other != url and await self.at(peer)[0].connect(CONNECT_S):
                return peer
        return first

    async def call(self, request: Message, timeout: float | None, metadata: tuple[Entry, ...]) -> Any:
        """Make a call that belongs to no run."""
        peer = await self.connect(await self.peers.choose_instance(self.target))
        limit = peer.client.timeout if timeout is None else timeout
        with peer.explain_refusals():
            return await self.at(peer)[1].call(request, timeout=limit, metadata=metadata)

    def read(self, response: Payload) -> Message:
        """Return the message of a recorded response."""
        if not isinstance(response.value, TypedMessage):
            raise InvalidArgumentError("is not a typed message", field="response")
        message: Message = self._deserialize(response.value.value)
        return message


class CallInRun:
    """A call within a run: the `MethodCall` of its action.

    Args:
        timeout: Limit of the wait in seconds. None waits until the call's task ends.

    Raises:
        InvalidArgumentError: The metadata has an entry that the run sets.
    """

    def __init__(
        self, method: PeerMethod, message: Message, timeout: float | None, metadata: tuple[Entry, ...], run: Run
    ) -> None:
        for key, _ in metadata:
            if key.lower() in _OF_THE_RUN:
                raise InvalidArgumentError("is set by the run", field=f"metadata[{key}]")
        self.agent = method.target
        self.method = method.path
        self.request = request_json(message)
        self._method = method
        self._message = message
        self._timeout = timeout
        self._metadata = metadata
        self._run = run
        self._peer: PeerConnection | None = None

    async def choose_instance(self) -> str:
        return await self._method.peers.choose_instance(self.agent)

    async def connect(self, url: str) -> str:
        self._peer = await self._method.connect(url)
        return self._peer.url

    async def send(self, url: str, action_id: str, context: RunContext) -> MethodAnswer:
        peer, observer = self._peer, CallObserver()
        if peer is None or peer.url != url:
            peer = await self._method.peers.reach(self.agent, url)
        try:
            metadata = self._metadata_of(action_id, peer, context)
            with peer.explain_refusals():
                response = await self._wait_for_response(peer, metadata, observer)
            return MethodAnswer(_typed_payload(response), _usage(observer))
        except ProtolinkError as error:
            return MethodAnswer(None, _usage(observer, error), error)
        except BaseException:
            if self._run.token.is_cancelled:
                self._method.peers.cancel_task(peer, action_id, self._run.token.reason)
            raise

    async def _wait_for_response(
        self, peer: PeerConnection, metadata: tuple[Entry, ...], observer: CallObserver
    ) -> Message:
        """Make the call. Without a timeout, repeat it when the server ends the wait; the request id finds the same task."""
        backoff = Backoff(OUTAGE_S, streams=True)
        while True:
            backoff.begin()
            try:
                method = self._method.at(peer)[1]
                response: Message = await method.call_observed(
                    self._message, observer, timeout=self._timeout, metadata=metadata
                )
                return response
            except DeadlineExceededError as error:
                if self._timeout is not None:
                    raise
                await backoff.wait_after(error)

    def _metadata_of(self, action_id: str, peer: PeerConnection, context: RunContext) -> tuple[Entry, ...]:
        ids: tuple[Entry, ...] = ((REQUEST_ID, action_id), (TASK_ID, action_id))
        if context.session_id:
            session = self._method.peers.session_at(peer, self._run.principal, context.session_id)
            if not session.isascii():  # metadata is ASCII; the mark alone is unique
                session = marked_session(self._run.principal, session).encode("ascii", "ignore").decode()
            ids = (*ids, (SESSION_ID, session))
        return (*self._metadata, *ids, (RUN_OPTIONS, options_to_bytes(context)))


_OF_THE_RUN = frozenset({REQUEST_ID, TASK_ID, SESSION_ID, RUN_OPTIONS})

MAX_INSTANCES = 64
"""Maximum number of instances whose methods a stub keeps."""


def request_json(message: Message) -> Any:
    """Return a request as ProtoJSON with the names of the .proto file, for policies and approvers.

    A message that has no JSON, for instance an `Any` of an unknown type, is the JSON form of a typed payload.
    """
    try:
        return MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    except (TypeError, ValueError):
        return Payload(TypedMessage(message.DESCRIPTOR.full_name, message.SerializeToString())).to_dict()


def _typed_payload(message: Message) -> Payload:
    preview = ""
    if message.ByteSize() <= MAX_PREVIEW_BYTES:
        with suppress(TypeError, ValueError):
            preview = MessageToJson(message, preserving_proto_field_name=True, indent=None)
    cut = preview.encode()[:MAX_PREVIEW_BYTES].decode(errors="ignore")
    return Payload(TypedMessage(message.DESCRIPTOR.full_name, message.SerializeToString()), preview=cut)


def _usage(observer: CallObserver, error: ProtolinkError | None = None) -> BudgetUsage | None:
    """Return the usage of a call, None if it is unknown: zero if the call did not arrive or was refused."""
    stated = observer.headers.get(USED)
    if isinstance(stated, bytes):
        return usage_from_bytes(stated)
    was_refused = isinstance(error, REFUSALS) and not observer.was_interrupted
    return BudgetUsage() if was_refused or not observer.may_have_arrived else None
