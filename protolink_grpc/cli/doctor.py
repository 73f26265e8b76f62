"""`doctor`: checks an address step by step, from the name to the registry. It stops where further checks cannot succeed."""

import asyncio
import ipaddress
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from protolink_grpc.auth.confidential import check_headers
from protolink_grpc.cli import output, probe
from protolink_grpc.cli.connect import (
    agent_client,
    is_address,
    parse_address,
    registry_client,
    run,
    tls_of,
    url_of,
)
from protolink_grpc.cli.failure import CommandError, ExitCode
from protolink_grpc.cli.probe import Handshake, WireProtocol
from protolink_grpc.cli.settings import Settings
from protolink_grpc.client.channel import ChannelOptions, channel_to, typed_errors
from protolink_grpc.errors import InvalidArgumentError, ProtolinkError, UnauthenticatedError, UnimplementedError
from protolink_grpc.models.card import PROTOCOL_VERSION, AgentCard
from protolink_grpc.net.address import Address, is_loopback
from protolink_grpc.wire.registry import AgentFilter

AGENT_SERVICE = "plgrpc.v1.AgentService"
REGISTRY_SERVICE = "plgrpc.v1.RegistryService"

RPC_S = 5.0
"""Default timeout of one request to the server, in seconds."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check. A problem has a hint."""

    name: str
    status: Literal["ok", "problem"]
    detail: str
    hint: str = ""


class Examination:
    """The checks of one address, in order, and their results."""

    def __init__(self, settings: Settings, target: str) -> None:
        self._settings = settings
        self._target = target
        self.checks: list[Check] = []
        self.url = ""
        self.reachable = False

    @property
    def exit_code(self) -> ExitCode:
        if all(check.status == "ok" for check in self.checks):
            return ExitCode.OK
        return ExitCode.FAILURE if self.reachable else ExitCode.UNREACHABLE

    def to_dict(self) -> dict[str, Any]:
        return {
            "target": self._target,
            "url": self.url,
            "ok": self.exit_code is ExitCode.OK,
            "checks": [asdict(check) for check in self.checks],
        }

    def _ok(self, name: str, detail: str) -> bool:
        self.checks.append(Check(name, "ok", detail))
        return True

    def _problem(self, name: str, detail: str, hint: str) -> bool:
        self.checks.append(Check(name, "problem", detail, hint))
        return False

    async def examine(self) -> None:
        """Run the checks."""
        address = await self._address()
        if address is None or not await self._network(address):
            return
        self.reachable = True
        if not await self._speech(address):
            return
        await self._health(address)
        services = await self._services(address)
        if AGENT_SERVICE in services:
            await self._agent(address)
        elif REGISTRY_SERVICE in services:
            await self._registry_itself(address)

    # -- from the name to the port ---------------------------------------------------------------------------------------

    async def _address(self) -> Address | None:
        name = "address" if is_address(self._target) else "name"
        try:
            address = parse_address(await url_of(self._settings, self._target))
        except CommandError as error:
            # The argument is invalid, which is not a problem of the server.
            self.reachable = error.exit_code is ExitCode.USAGE
            self._problem(name, str(error), error.hint)
            return None
        except ProtolinkError as error:
            self._problem(name, str(error), "plgrpc agents list shows the registered agents")
            return None
        try:
            check_headers(self._settings.headers, address.url, insecure_ok=False)
        except InvalidArgumentError as error:
            self._problem(name, error.detail, "use grpcs://, or leave that --header out")
            return None
        self.url = address.url
        self._ok(name, address.url)
        return address

    async def _network(self, address: Address) -> bool:
        try:
            found = await asyncio.to_thread(probe.addresses_of, address.host, address.port)
        except OSError as error:
            hint = "check the spelling of the host and the DNS of this machine"
            return self._problem("dns", f"{address.host} has no address: {error.strerror or error}", hint)
        self._ok("dns", ", ".join(found))
        try:
            await asyncio.to_thread(probe.connect, address)
        except TimeoutError:
            hint = "a firewall may drop the packets, or the machine is off"
            return self._problem("tcp", f"no answer within {probe.ANSWER_S:g} s", hint)
        except OSError:
            hint = "nothing listens on that port: is the server running, and is the port right?"
            return self._problem("tcp", f"{address.target} refuses connections", hint)
        return self._ok("tcp", f"{address.target} accepts connections")

    async def _speech(self, address: Address) -> bool:
        if address.secure:
            return await self._secure(address)
        protocol = await asyncio.to_thread(probe.detect_without_tls, address)
        if protocol is WireProtocol.HTTP2:
            return self._ok("transport", "HTTP/2 without TLS")
        if protocol is WireProtocol.TLS:
            secure = Address(address.host, address.port, secure=True).url
            return self._problem("transport", "the server uses TLS, but the URL does not", f"use {secure}")
        return self._problem("transport", *_no_grpc(protocol))

    async def _secure(self, address: Address) -> bool:
        try:
            handshake = await asyncio.to_thread(probe.detect_over_tls, address, tls_of(self._settings))
        except (OSError, ValueError) as error:
            return self._problem(
                "tls", f"the certificates cannot be used: {error}", "check --tls-ca, --tls-cert, --tls-key"
            )
        if not handshake.problem:
            self._ok("tls", "certificate accepted")
            if handshake.protocol is WireProtocol.HTTP2:
                return self._ok("transport", "HTTP/2 over TLS")
            return self._problem("transport", *_no_grpc(handshake.protocol))
        return self._problem("tls", *await self._why_no_tls(address, handshake))

    async def _why_no_tls(self, address: Address, handshake: Handshake) -> tuple[str, str]:
        if handshake.untrusted:
            hint = "pass the certificate of its authority with --tls-ca; the certificate must contain the URL's host"
            return f"the certificate is not trusted: {handshake.problem}", hint
        if handshake.needs_client_cert:
            if self._settings.cert_file:
                hint = "use a certificate of an authority that the server trusts"
                return "the server does not accept this client certificate", hint
            return "the server seems to require a client certificate (mTLS)", "pass --tls-cert and --tls-key"
        if await asyncio.to_thread(probe.detect_without_tls, address) is WireProtocol.HTTP2:
            plain = Address(address.host, address.port).url
            return "the server does not use TLS, but the URL does", f"use {plain}"
        return f"the TLS handshake failed: {handshake.problem}", "check that this port uses TLS"

    # -- the server ------------------------------------------------------------------------------------------------------

    @property
    def _timeout_s(self) -> float:
        return self._settings.timeout_s or RPC_S

    def _channel(self, address: Address) -> Any:
        # The async stubs: the generated types distinguish them from the sync ones only by the channel.
        return channel_to(address, ChannelOptions(tls_of(self._settings), self._settings.headers))

    async def _health(self, address: Address) -> bool:
        stub: Any = health_pb2_grpc.HealthStub(self._channel(address))
        try:
            async with typed_errors(address):
                answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=self._timeout_s)
        except UnimplementedError:
            hint = "load balancers and orchestrators cannot check it; it may not be a server of this package"
            return self._problem("health", "the server has no health service", hint)
        except ProtolinkError as error:
            return self._problem(
                "health", str(error), "check that a gRPC server uses this port, and no proxy without gRPC support"
            )
        status = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
        if answer.status == health_pb2.HealthCheckResponse.SERVING:
            return self._ok("health", status)
        return self._problem("health", status, "the server is starting or stopping; see its log")

    async def _services(self, address: Address) -> Sequence[str]:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(self._channel(address))
        request = reflection_pb2.ServerReflectionRequest(list_services="*")
        names: list[str] = []
        try:
            async with typed_errors(address):
                async for answer in stub.ServerReflectionInfo(iter([request]), timeout=self._timeout_s):
                    names = sorted(each.name for each in answer.list_services_response.service)
        except UnimplementedError:
            # Reflection is optional.
            self._ok("services", "no reflection; assumed to be an agent")
            return [AGENT_SERVICE]
        except ProtolinkError as error:
            self._problem("services", str(error), "the server does not answer gRPC calls")
            return []
        if AGENT_SERVICE in names or REGISTRY_SERVICE in names:
            self._ok("services", ", ".join(names))
        else:
            hint = f"it serves neither {AGENT_SERVICE} nor {REGISTRY_SERVICE}: another gRPC server uses this port"
            self._problem("services", ", ".join(names), hint)
        return names

    async def _agent(self, address: Address) -> None:
        try:
            card = await agent_client(self._settings, RPC_S).get_agent_card(address.url)
        except UnauthenticatedError as error:
            self._problem("card", str(error), "pass credentials with --header")
            return
        except (ProtolinkError, DecodeError) as error:
            self._problem("card", str(error), "the agent returns no valid card; it may have another version")
            return
        self._ok("card", f"{card.name} {card.version}, {len(card.skills)} skill{'' if len(card.skills) == 1 else 's'}")
        self._card_url(card, address)
        self._version(card)
        if self._settings.registry:
            await self._registration(card)

    def _card_url(self, card: AgentCard, address: Address) -> bool:
        try:
            own = Address.parse(card.url)
        except ProtolinkError as error:
            return self._problem("card url", str(error), "peers that find the agent in a registry cannot call it")
        if _is_wildcard(own.host):
            hint = "peers cannot connect to a wildcard address; use a URL with the agent's host name or address"
            return self._problem("card url", card.url, hint)
        if (own.port, own.secure) == (address.port, address.secure) and _same_host(own.host, address.host):
            return self._ok("card url", card.url)
        hint = f"peers that find the agent in a registry call {card.url}, not {address.url}"
        return self._problem("card url", f"{card.url} is not the address that was checked", hint)

    def _version(self, card: AgentCard) -> bool:
        theirs, ours = card.protocol_version, PROTOCOL_VERSION
        if theirs == ours:
            return self._ok("protocol version", ours)
        if theirs.partition(".")[0] == ours.partition(".")[0]:
            return self._ok("protocol version", f"{theirs}, compatible with {ours}")
        return self._problem("protocol version", f"{theirs}, not compatible with {ours}", "upgrade the older side")

    async def _registration(self, card: AgentCard) -> bool:
        try:
            registry = registry_client(self._settings)
            named = await registry.list_agents(AgentFilter(name=card.name))
        except CommandError as error:
            return self._problem("registry", str(error), error.hint)
        except ProtolinkError as error:
            return self._problem("registry", str(error), f"plgrpc doctor {self._settings.registry} checks the registry")
        urls = [agent.card.url for agent in named]
        if card.url not in urls:
            found = f"is registered at {', '.join(urls)}, not here" if urls else "is not registered"
            hint = "start it with --registry; its log shows why a registration failed"
            return self._problem("registry", f"{card.name} {found}", hint)
        if len(urls) > 1:
            hint = "calls by an ambiguous name are refused; use URLs or other names"
            return self._problem("registry", f"{len(urls)} agents have the name {card.name}: {', '.join(urls)}", hint)
        return self._ok("registry", f"registered at {registry.url}")

    async def _registry_itself(self, address: Address) -> bool:
        settings = Settings(
            registry=address.url,
            timeout_s=self._timeout_s,
            headers=self._settings.headers,
            ca_file=self._settings.ca_file,
            cert_file=self._settings.cert_file,
            key_file=self._settings.key_file,
        )
        try:
            agents = await registry_client(settings).list_agents()
        except ProtolinkError as error:
            return self._problem("registry", str(error), "pass credentials with --header, or see the registry's log")
        return self._ok("registry", f"this is a registry with {len(agents)} agents")


def _no_grpc(protocol: WireProtocol) -> tuple[str, str]:
    """Return the problem of a server that does not use HTTP/2, and a hint."""
    if protocol is WireProtocol.HTTP1:
        return "an HTTP/1 server uses this port, but gRPC needs HTTP/2", "use the agent's gRPC port, not its HTTP port"
    if protocol is WireProtocol.NOTHING:
        return "the server accepts connections but does not answer HTTP/2", "another kind of server may use this port"
    return "the server does not support HTTP/2", "another kind of server uses this port"


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _same_host(one: str, other: str) -> bool:
    return one == other or (is_loopback(one) and is_loopback(other))


def doctor(settings: Settings, target: str) -> ExitCode:
    """Check a target and print the results. Returns the exit code."""
    examination = Examination(settings, target)
    run(examination.examine(), target)
    if settings.json:
        output.document(examination.to_dict())
        return examination.exit_code
    for check in examination.checks:
        output.line(f"{check.status:8}{check.name}: {output.one_line(check.detail, 300)}", word=check.status)
        if check.hint:
            output.line(f"{'hint':8}{output.one_line(check.hint, 300)}")
    return examination.exit_code
