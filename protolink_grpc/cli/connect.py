"""Creates clients from the command line's settings, names and URLs. Importing this module loads gRPC."""

import asyncio
import difflib
import re
import sys
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from protolink_grpc.cli.failure import command_error, usage_error
from protolink_grpc.cli.settings import REGISTRY_VARIABLE, Settings
from protolink_grpc.client.agent_client import AgentClient
from protolink_grpc.client.channel import close_channels
from protolink_grpc.client.registry_client import RegistryClient
from protolink_grpc.errors import DeadlineExceededError, InvalidArgumentError, ProtolinkError
from protolink_grpc.net.address import Address
from protolink_grpc.net.event_loops import run as run_loop
from protolink_grpc.net.tls import TLSConfig

T = TypeVar("T")

QUICK_S = 30.0
"""Default timeout of requests that start no work, in seconds."""

WAIT_S = 300.0
"""Default timeout for waiting for a task, in seconds."""

OUTAGE_S = 3.0
"""How long a command retries: longer than an agent's restart, short enough to report a wrong address soon, in seconds."""

HOST_AND_PORT = re.compile(r"[^\s:/]+:\d+|\[[0-9A-Fa-f:.]+\]:\d+")


def run(work: Coroutine[Any, Any, T], target: str = "") -> T:
    """Run a command to its end and close its connections. Errors of the library are converted to those of the command line."""
    try:
        return run_loop(_run_and_close(work))
    except ProtolinkError as error:
        raise command_error(error, target) from error


async def _run_and_close(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    finally:
        await close_channels()
        if "protolink_grpc.client.http_channel" in sys.modules:  # importing it takes longer than most commands
            await sys.modules["protolink_grpc.client.http_channel"].close_http_channels()


def tls_of(settings: Settings) -> TLSConfig | None:
    """Return the certificates from the settings, or None for those of the system."""
    if not (settings.ca_file or settings.cert_file or settings.key_file):
        return None
    if bool(settings.cert_file) != bool(settings.key_file):
        raise usage_error("--tls-cert and --tls-key must be used together", "pass both files")
    return TLSConfig(settings.cert_file or None, settings.key_file or None, settings.ca_file or None)


def agent_client(settings: Settings, default_s: float) -> AgentClient:
    return AgentClient(
        "grpc",
        timeout=settings.timeout_s or default_s,
        tls=tls_of(settings),
        metadata=settings.headers,
        outage_s=OUTAGE_S,
    )


def registry_client(settings: Settings) -> RegistryClient:
    """Create a client for the registry in the settings.

    Raises:
        CommandError: No registry is set, or the setting is not a URL.
    """
    if not settings.registry:
        raise usage_error("no registry is set", f"use --registry grpc://HOST:PORT, or set {REGISTRY_VARIABLE}")
    parse_address(settings.registry)
    return RegistryClient(
        settings.registry,
        timeout=settings.timeout_s or QUICK_S,
        tls=tls_of(settings),
        metadata=settings.headers,
        outage_s=OUTAGE_S,
    )


def parse_address(url: str) -> Address:
    """Parse a gRPC URL or `host:port`.

    Raises:
        CommandError: The text is neither; the error contains the reason.
    """
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme == "runtime":
        raise usage_error(
            f"{url} exists only within one process", "plgrpc serve module:agent serves an agent at a gRPC URL"
        )
    if scheme in ("http", "https"):
        hint = f"the card shows the gRPC address: curl {url.rstrip('/')}/.well-known/agent-card.json"
        raise usage_error(f"{url} is an HTTP address, and plgrpc uses gRPC", hint)
    try:
        return Address.parse(url)
    except InvalidArgumentError as error:
        hint = "the URL of an agent looks like grpc://127.0.0.1:50051, or grpcs:// for TLS"
        raise usage_error(error.detail, hint) from None


def is_address(target: str) -> bool:
    """Return whether a target is a URL or a host and a port, rather than a name."""
    return "://" in target or HOST_AND_PORT.fullmatch(target) is not None


async def url_of(settings: Settings, target: str) -> str:
    """Return the URL of an agent, from its URL or its name in the registry.

    Raises:
        CommandError: It is not a URL, and no registry is set.
        AgentNotFoundError, AmbiguousAgentError, UnavailableError: From the registry.
    """
    if is_address(target):
        return parse_address(target).url
    if not settings.registry:
        hint = f"set the registry with --registry or {REGISTRY_VARIABLE}, or use grpc://HOST:PORT"
        raise usage_error(f"{target!r} is not a URL, and no registry is set to look up the name", hint)
    try:
        return (await registry_client(settings).get(target)).card.url
    except ConnectionError as error:
        if isinstance(error, ProtolinkError):
            raise command_error(error, settings.registry) from error
        raise


@asynccontextmanager
async def within(seconds: float | None, what: str, **metadata: str) -> AsyncIterator[None]:
    """Apply a timeout to a wait without one. None means no timeout.

    Raises:
        DeadlineExceededError: After the timeout.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        if isinstance(error, ProtolinkError):
            raise
        raise DeadlineExceededError(f"{what} took longer than {seconds:g} s", **metadata) from None


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the most similar name, or empty if no name is similar."""
    found = difflib.get_close_matches(name, list(names), n=1)
    return found[0] if found else ""
