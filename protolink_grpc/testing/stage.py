"""The servers for conformance programs: an agent (also behind a proxy), one with authentication, a calculator and a registry."""

import secrets
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from protolink_grpc.agent import Registry
from protolink_grpc.auth import AnyOf, APIKeyAuth, BearerTokenAuth
from protolink_grpc.auth.principal import Principal
from protolink_grpc.edges.http.options import HttpOptions
from protolink_grpc.net.address import Address
from protolink_grpc.testing.calculator import make_calculator
from protolink_grpc.testing.hostile_proxy import HostileProxy
from protolink_grpc.testing.scripted_agent import ScriptedAgent, conformance_card

PRINCIPAL = "conformance"
"""The principal of the API key and the token of a stage."""

TOKEN_S = 24 * 3600
"""How long the token is valid: longer than any test, in seconds."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The addresses of the servers, and the credentials of the agent with authentication.

    Args:
        hostile: The open agent behind a proxy that breaks connections.
        calculator: An agent with a typed service behind another such proxy.
        vectors: Folder of the shared vectors; empty if there is none.
    """

    agent: str
    hostile: str
    guarded: str
    api_key: str
    bearer: str
    registry: str
    http: str
    calculator: str
    vectors: str

    def announcement(self) -> dict[str, str]:
        """The stage as a JSON object."""
        return asdict(self)

    def environment(self) -> dict[str, str]:
        """The stage as environment variables: PLGRPC_AGENT and so on."""
        return {f"PLGRPC_{name.upper()}": value for name, value in asdict(self).items()}


@asynccontextmanager
async def open_stage(vectors: str | None = None, http: HttpOptions | str = "127.0.0.1:0") -> AsyncIterator[Stage]:
    """Run the servers on free ports of the loopback address until the block is left.

    Args:
        vectors: Folder of the vectors; None means that of the checkout of this package.
        http: The HTTP port of the open agent.
    """
    api_key, secret = secrets.token_urlsafe(24), secrets.token_urlsafe(48)
    keys = APIKeyAuth({api_key: Principal(PRINCIPAL)})
    proxy = HostileProxy()
    async with AsyncExitStack() as opened:
        registry = await opened.enter_async_context(Registry())
        agent = await opened.enter_async_context(
            ScriptedAgent(card=conformance_card(), registry=registry, http=http, proxy=proxy, grace_s=0)
        )
        await opened.enter_async_context(proxy.serve(Address.parse(agent.card.url)))
        guarded = await opened.enter_async_context(
            ScriptedAgent(
                card=conformance_card("guarded"), authenticator=AnyOf(keys, BearerTokenAuth(secret)), grace_s=0
            )
        )
        calculator_proxy = HostileProxy()
        calculator = await opened.enter_async_context(make_calculator(calculator_proxy))
        await opened.enter_async_context(calculator_proxy.serve(Address.parse(calculator.card.url)))
        yield Stage(
            agent=agent.card.url,
            hostile=proxy.url,
            guarded=guarded.card.url,
            api_key=api_key,
            bearer=_token(secret),
            registry=registry.url,
            http=agent.http_url,
            calculator=calculator_proxy.url,
            vectors=_vectors() if vectors is None else vectors,
        )


def _token(secret: str) -> str:
    import jwt  # 0.1 s to load, see auth.bearer

    return jwt.encode({"sub": PRINCIPAL, "exp": int(time.time()) + TOKEN_S}, secret, algorithm="HS256")


def _vectors() -> str:
    folder = Path(__file__).resolve().parents[2] / "tests" / "vectors"
    return str(folder) if folder.is_dir() else ""
