"""`serve` and `registry`: servers in the foreground, until SIGTERM or SIGINT."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from protolink_grpc.agent import Agent, Registry
from protolink_grpc.agent.lifetime import wait_for_stop
from protolink_grpc.cli import output
from protolink_grpc.cli.connect import parse_address, run
from protolink_grpc.cli.failure import CommandError, usage_error
from protolink_grpc.cli.load import load_agent
from protolink_grpc.cli.settings import require_file
from protolink_grpc.net.address import RUNTIME_SCHEME
from protolink_grpc.net.event_loops import schedule_as_batch
from protolink_grpc.net.tls import TLSConfig
from protolink_grpc.storage import SQLiteStore

FREE_PORT = "grpc://127.0.0.1:0"
"""Default address of an agent without a gRPC URL: a free port of the loopback address."""


@dataclass(frozen=True, slots=True)
class Serving:
    """The settings of a server. Empty values leave the program's own settings unchanged.

    Args:
        json: Print the addresses as one JSON document on standard output.
        file: File of the tasks or of the registrations.
        listen: Address to listen on, if it differs from `url`.
        http: `host:port` of the HTTP port.
        require_client_cert: Refuse clients without a certificate signed by `ca_file`.
    """

    url: str = ""
    registry: str = ""
    file: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    require_client_cert: bool = False
    json: bool = False
    listen: str = ""
    http: str = ""

    def tls(self) -> TLSConfig | None:
        """Return the certificates from the options.

        Raises:
            CommandError: They are incomplete, or the URL is unencrypted.
        """
        if bool(self.cert_file) != bool(self.key_file):
            raise usage_error("--tls-cert and --tls-key must be used together", "pass both files")
        if self.require_client_cert and not (self.ca_file and self.cert_file):
            raise usage_error(
                "--require-client-cert needs certificates", "pass them with --tls-cert, --tls-key and --tls-ca"
            )
        if not self.cert_file and self.url.startswith("grpcs://"):
            raise usage_error(f"{self.url} needs a certificate", "pass it with --tls-cert and --tls-key")
        if not (self.cert_file or self.ca_file):
            return None
        # --listen without a scheme uses the URL's.
        for url in (self.url, self.listen if "://" in self.listen else ""):
            if self.cert_file and url and not parse_address(url).secure:
                raise usage_error(f"{url} does not use TLS", "a URL with certificates begins with grpcs://")
        for option, path in (("--tls-cert", self.cert_file), ("--tls-key", self.key_file), ("--tls-ca", self.ca_file)):
            require_file(path, option)
        return TLSConfig(self.cert_file or None, self.key_file or None, self.ca_file or None, self.require_client_cert)


def serve(target: str, serving: Serving) -> None:
    """Run the agent at `module:attribute`."""
    tls = serving.tls()
    agent = load_agent(target)
    url = serving.url or _own_url(agent, secure=bool(serving.cert_file))
    if url:
        parse_address(url)
    if serving.registry:
        parse_address(serving.registry)
    try:
        agent.relocate(
            url=url or None,
            registry=serving.registry or None,
            store=SQLiteStore(serving.file) if serving.file else None,
            tls=tls,
            listen=serving.listen or None,
            http=serving.http or None,
        )
    except RuntimeError:
        raise CommandError(
            f"{target} is already running", hint="do not start it in its module; plgrpc serve starts it"
        ) from None
    schedule_as_batch()
    run(_serve_until_stopped(agent, lambda: _addresses({"name": agent.card.name}, agent), serving), url)


def _addresses(about: dict[str, str], server: Agent | Registry) -> dict[str, str]:
    """Return `about` and the URLs of a running server, which are printed with `-o json`."""
    url = server.card.url if isinstance(server, Agent) else server.url
    return {**about, "url": url, **({"http_url": server.http_url} if server.http_url else {})}


def _own_url(agent: Agent, *, secure: bool) -> str:
    """Return the URL to which the agent is relocated; empty if it keeps its own."""
    url = agent.card.url
    if url.startswith(RUNTIME_SCHEME):
        url = FREE_PORT
    if secure and url.startswith("grpc://"):
        url = url.replace("grpc://", "grpcs://", 1)
    return "" if url == agent.card.url else url


def serve_registry(serving: Serving) -> None:
    """Run a registry."""
    tls = serving.tls()
    url = serving.url
    parse_address(url)
    registry = Registry(url=url, path=serving.file or None, http=serving.http or None, tls=tls)
    schedule_as_batch()
    run(_serve_until_stopped(registry, lambda: _addresses({}, registry), serving), url)


async def _serve_until_stopped(
    server: Agent | Registry, announcement: Callable[[], dict[str, str]], serving: Serving
) -> None:
    # Signal handlers come first, so that a signal during the start is not lost.
    stop = asyncio.ensure_future(wait_for_stop(None))
    await asyncio.sleep(0)
    try:
        await server.serve()
        if serving.json:
            output.document(announcement())
        await stop
    finally:
        stop.cancel()
        await server.aclose()
