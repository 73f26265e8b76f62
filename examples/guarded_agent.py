"""Authentication with API keys, access rules by scope, and a rate limit, for gRPC and HTTP."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import httpx

from protolink_grpc import (
    AccessRules,
    Agent,
    AgentClient,
    APIKey,
    APIKeyAuth,
    CapabilityPolicy,
    Principal,
    ProtolinkError,
    RateLimit,
    ServingConfig,
    Task,
)

agent = Agent(
    name="cashier",
    url="grpc://127.0.0.1:0",
    serving=ServingConfig(
        http="127.0.0.1:0",
        # In production, read keys from a secret store.
        authenticator=APIKeyAuth(
            {"key-of-ann": Principal("ann", frozenset({"payments", "operate"})), "key-of-bob": Principal("bob")}
        ),
        # The names of gRPC's services and methods apply to all protocols.
        access=AccessRules({"/plgrpc.v1.ControlService/*": "operate"}),
        rate_limit=RateLimit(per_second=0.1, burst=3),
    ),
    # A tool runs on behalf of the task's caller: this one requires a scope of the caller.
    policy=CapabilityPolicy({"payments.write": {"effect": "allow", "scopes": ["payments"]}}),
)


@agent.tool(capabilities=["payments.write"])
def pay(amount: int) -> str:
    """Pay out an amount."""
    return f"{amount} paid"


def payment() -> Task:
    return Task.create_tool_call("pay", {"amount": 90})


async def attempt(label: str, call: Awaitable[object]) -> Any:
    try:
        result = await call
    except ProtolinkError as error:
        print(f"{label}: {error.reason}")
    else:
        print(f"{label}:", f"{result.state} {result.get_output() or ''}" if isinstance(result, Task) else result)
        return result


async def main() -> None:
    async with agent:
        ann = AgentClient(url=agent.http_url, credentials=APIKey("key-of-ann"))
        bob = AgentClient(url=agent.card.url, credentials=APIKey("key-of-bob"))
        await attempt("anonymous pays", AgentClient(url=agent.card.url).send_task(None, payment()))
        paid = await attempt("ann pays", ann.send_task(None, payment()))
        await attempt("bob pays", bob.send_task(None, payment()))
        await attempt("bob reads ann's task", bob.get_task(paid.id))
        await attempt("bob lists approvals", bob.list_approvals())
        await attempt("bob exceeds the rate limit", bob.get_task(paid.id))
        async with httpx.AsyncClient(base_url=agent.http_url, headers={"A2A-Version": "1.0"}) as http:
            for path in ("/healthz", "/.well-known/agent-card.json", "/tasks"):
                print(path, (await http.get(path)).status_code)


if __name__ == "__main__":
    asyncio.run(main())
