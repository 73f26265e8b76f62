"""Connections to an A2A peer: reads its card, chooses an interface, and maps the errors of the official client."""

import copy
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import grpc.aio
import httpx
from a2a.client.card_resolver import parse_agent_card
from a2a.client.client import ClientCallContext
from a2a.client.errors import A2AClientTimeoutError
from a2a.client.transports.base import ClientTransport
from a2a.client.transports.grpc import GrpcTransport
from a2a.client.transports.jsonrpc import JsonRpcTransport
from a2a.client.transports.rest import RestTransport
from a2a.compat.v0_3.grpc_transport import CompatGrpcTransport
from a2a.compat.v0_3.jsonrpc_transport import CompatJsonRpcTransport
from a2a.compat.v0_3.rest_transport import CompatRestTransport
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors as theirs
from google.protobuf.json_format import ParseError
from google.protobuf.message import DecodeError

from protolink_grpc import errors
from protolink_grpc.a2a.card import card_from_a2a
from protolink_grpc.a2a.client.card_interfaces import (
    GRPC,
    InterfaceAddress,
    ResolvedAddress,
    interface_address,
    resolve_address,
)
from protolink_grpc.a2a.values import IDEMPOTENCY_KEY, OWN_SERVICES, V03, V1
from protolink_grpc.client.channel import call_error, channel_to
from protolink_grpc.client.http_channel import (
    Sender,
    deadline_error,
    http_channel_to,
    http_error,
    http_errors,
    remote_address,
)
from protolink_grpc.errors import InvalidAgentResponseError, InvalidArgumentError, ProtolinkError, RemoteError
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.json_value import from_json
from protolink_grpc.net.address import Address, WebAddress

CARD_PATH = "/.well-known/agent-card.json"

CARD_S = 300.0
"""How long a card is cached, in seconds. A peer can set a shorter time (Cache-Control)."""

JSONRPC, REST = "JSONRPC", "HTTP+JSON"
VERSION_HEADER = "A2A-Version"


@dataclass(frozen=True, slots=True)
class Card:
    """A peer's card.

    Args:
        a2a: The card as the official client parses it.
        own: The card as a model of this package.
        fresh_until: Time until which it is used from the cache, on the monotonic clock.
        source_address: The numeric address that the card came from; empty if unknown.
    """

    a2a: pb.AgentCard
    own: AgentCard
    etag: str
    fresh_until: float
    source_address: str = ""

    @property
    def has_own_services(self) -> bool:
        """Whether the peer is an agent of this package, which serves `plgrpc.v1` over gRPC-Web under the base URL of its card."""
        return any(each.uri == OWN_SERVICES for each in self.a2a.capabilities.extensions)


async def fetch_card(sender: Sender, known: Card | None = None) -> Card:
    """Return the current card of a peer. An unchanged card is `known` with a new expiry time.

    Raises:
        UnimplementedError: The peer has no card.
        InvalidAgentResponseError: The document is not a valid card.
    """
    address = sender.address
    headers = await sender.headers(address)
    if known is not None and known.etag:
        headers["If-None-Match"] = known.etag
    url = address.url + CARD_PATH
    with http_errors(url):
        response = await http_channel_to(address, sender.options).get(url, headers=headers)
        fresh_until = time.monotonic() + _max_age_s(response)
        if response.status_code == 304 and known is not None:
            return replace(known, fresh_until=fresh_until, source_address=remote_address(response, address))
        response.raise_for_status()
    card = card_of(response.content, address, response.headers.get("etag", ""), fresh_until)
    return replace(card, source_address=remote_address(response, address))


def card_of(text: bytes, address: WebAddress, etag: str, fresh_until: float) -> Card:
    """Parse a card. Raises InvalidAgentResponseError if it is not an A2A card."""
    try:
        found: Any = from_json(text)
        theirs_card = parse_agent_card(copy.deepcopy(found))  # it modifies its argument
        own = card_from_a2a(found)
    except (ParseError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise InvalidAgentResponseError(
            f"{address.url}{CARD_PATH} is not a valid A2A card: {error}", url=address.url
        ) from None
    # The card keeps the URL by which it was found; the URLs of its interfaces are used only to call the peer.
    return Card(theirs_card, replace(own, url=address.url), etag, fresh_until)


def _max_age_s(response: httpx.Response) -> float:
    for each in response.headers.get("cache-control", "").split(","):
        name, _, value = each.strip().lower().partition("=")
        if name in ("no-cache", "no-store"):
            return 0.0
        if name == "max-age" and value.isascii() and value.isdigit():
            return min(CARD_S, float(value))
    return CARD_S


@dataclass(frozen=True, slots=True)
class PeerInterface:
    """The chosen interface of a peer, with its transport.

    Args:
        web: Web address of the interface, used to select its headers; set for gRPC interfaces, too.
        grpc: gRPC address of the interface; None for HTTP.
    """

    transport: ClientTransport
    web: WebAddress
    grpc: Address | None
    binding: str
    version: str
    tenant: str
    streaming: bool

    @property
    def can_subscribe(self) -> bool:
        """Whether subscriptions begin with a snapshot, so that no update is lost or repeated. In v0.3 they do not."""
        return self.streaming and self.version != V03

    async def call(self, sender: Sender, idempotency_key: str = "") -> ClientCallContext:
        """Return the context of one call: its headers, idempotency key and version."""
        parameters = await sender.headers(self.web)
        if idempotency_key:
            parameters[IDEMPOTENCY_KEY] = idempotency_key
        if self.version != V03 and self.grpc is None:
            parameters[VERSION_HEADER] = V1
        return ClientCallContext(service_parameters=parameters)


async def choose_interface(card: Card, sender: Sender, binding: str = "") -> tuple[InterfaceAddress, ResolvedAddress]:
    """Return the best interface that both sides support and that passes the checks of `resolve_address`.

    If there are credentials, interfaces of the origins that may receive them come first. Then A2A v1.0 comes before v0.3, then the
    order of the peer's card counts.

    Args:
        binding: The only binding to use; empty allows any.

    Raises:
        UnimplementedError: The card has no such interface.
        InvalidAgentResponseError: The first refused interface leads to a forbidden address.
        UnavailableError: The first refused interface has a name without an address.
    """
    places = [place for each in card.a2a.supported_interfaces if (place := interface_address(each, sender)) is not None]
    supported = [place for place in places if (place.binding, place.version) in _TRANSPORTS]
    if binding:
        supported = [place for place in supported if place.binding == binding]
    if not supported:
        over = f" over {binding}" if binding else ""
        raise errors.UnimplementedError(f"{sender.address.url} has no A2A interface{over} that this client supports")
    supported.sort(
        key=lambda place: (
            sender.has_secrets and not sender.may_receive_credentials(place.web.origin),
            place.version != V1,
        )
    )
    refusals: list[ProtolinkError] = []
    for place in supported:
        try:
            return place, await resolve_address(place, sender, card.source_address)
        except (InvalidAgentResponseError, errors.UnavailableError) as error:
            refusals.append(error)
    raise refusals[0]


def open_interface(place: InterfaceAddress, resolved: ResolvedAddress, card: Card, sender: Sender) -> PeerInterface:
    """Return the chosen interface with a transport that uses the connections of the running loop."""
    make = _TRANSPORTS[place.binding, place.version]
    if place.grpc is not None:
        transport = make(channel_to(place.grpc, sender.options, resolved.addresses), card.a2a)
    else:
        client = http_channel_to(place.web, sender.options, resolved.resolve)
        transport = make(client, card.a2a, place.url, is_shared_httpx=True)
    streaming = card.a2a.capabilities.streaming
    return PeerInterface(transport, place.web, place.grpc, place.binding, place.version, place.tenant, streaming)


def grpc_interface(address: Address, sender: Sender) -> PeerInterface:
    """Return an A2A v1.0 interface at a gRPC address, without a card."""
    transport = GrpcTransport(channel_to(address, sender.options), pb.AgentCard())
    return PeerInterface(transport, sender.address, address, GRPC, V1, "", streaming=True)


_TRANSPORTS: dict[tuple[str, str], Any] = {
    (JSONRPC, V1): JsonRpcTransport,
    (JSONRPC, V03): CompatJsonRpcTransport,
    (REST, V1): RestTransport,
    (REST, V03): CompatRestTransport,
    (GRPC, V1): GrpcTransport,
    (GRPC, V03): CompatGrpcTransport,
}


# -- errors --------------------------------------------------------------------------------------------------------------------

_CLASSES: dict[type[Exception], type[ProtolinkError]] = {
    theirs.TaskNotFoundError: errors.TaskNotFoundError,
    theirs.TaskNotCancelableError: errors.TaskNotCancelableError,
    theirs.PushNotificationNotSupportedError: errors.PushNotSupportedError,
    theirs.UnsupportedOperationError: errors.UnsupportedOperationError,
    theirs.ContentTypeNotSupportedError: errors.ContentTypeNotSupportedError,
    theirs.InvalidAgentResponseError: errors.InvalidAgentResponseError,
    theirs.ExtendedAgentCardNotConfiguredError: errors.ExtendedCardNotConfiguredError,
    theirs.ExtensionSupportRequiredError: errors.ExtensionRequiredError,
    theirs.VersionNotSupportedError: errors.VersionNotSupportedError,
    theirs.InvalidParamsError: errors.InvalidArgumentError,
    theirs.InvalidRequestError: errors.InvalidArgumentError,
    theirs.JSONParseError: errors.InvalidArgumentError,
    theirs.MethodNotFoundError: errors.UnimplementedError,
}
"""A2A errors to the errors of this package. Other errors of the official client are mapped by their cause."""


@contextmanager
def a2a_errors(url: str, grpc_at: Address | None, **metadata: str) -> Iterator[None]:
    """Convert exceptions of the official client to errors of this package."""
    try:
        yield
    except InvalidArgumentError as error:
        # This error is about the peer's response: our codec raises it. An error about our request is an A2AError.
        raise _invalid_response_error(error, url, metadata) from None
    except ProtolinkError:
        raise
    except theirs.A2AError as error:
        raise _convert_error(error, url, grpc_at, metadata) from None
    except NotImplementedError as error:
        raise errors.UnimplementedError(f"{url}: {error}", **metadata) from None
    except (httpx.HTTPError, httpx.StreamError) as error:
        raise http_error(error, url, **metadata) from None
    except grpc.aio.AioRpcError as error:
        raise _grpc_error(error, url, grpc_at, metadata) from None
    except (ParseError, DecodeError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise _invalid_response_error(error, url, metadata) from None


def _convert_error(
    error: theirs.A2AError, url: str, grpc_at: Address | None, metadata: dict[str, str]
) -> ProtolinkError:
    cls = _CLASSES.get(type(error))
    if cls is not None:
        converted = cls(str(error), **metadata)
        converted.metadata |= _text_entries(error.data)
        return converted
    cause = error.__cause__
    if isinstance(cause, httpx.HTTPError):
        return http_error(cause, url, **metadata)
    if isinstance(cause, grpc.aio.AioRpcError):
        return _grpc_error(cause, url, grpc_at, metadata)
    if isinstance(error, A2AClientTimeoutError):
        return deadline_error(url, **metadata)
    if cause is not None:
        return _invalid_response_error(cause, url, metadata)
    return RemoteError(str(error), code="INTERNAL", url=url, **metadata)


def _invalid_response_error(error: BaseException, url: str, metadata: dict[str, str]) -> ProtolinkError:
    return InvalidAgentResponseError(f"{url} sent an invalid A2A response: {error}", url=url, **metadata)


def _grpc_error(
    error: grpc.aio.AioRpcError, url: str, grpc_at: Address | None, metadata: dict[str, str]
) -> ProtolinkError:
    return RemoteError(f"{url}: {error.code().name}") if grpc_at is None else call_error(error, grpc_at, **metadata)


def _text_entries(data: object) -> Mapping[str, str]:
    if not isinstance(data, Mapping):
        return {}
    return {key: value for key, value in data.items() if isinstance(key, str) and isinstance(value, str)}
