"""Permissions of messages that do the work of another method: they register webhooks or answer approvals. And private cards."""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from a2a_stage import Stage, agent_with, by_token, card, playing, push
from a2a_wires import V1_NAMES, Caller, Json, Refused, message

from protolink_grpc import (
    A2AOptions,
    AccessRules,
    Agent,
    Approvals,
    BasicAuth,
    CapabilityPolicy,
    HttpOptions,
    MutualTLS,
    Principal,
    RateLimit,
    Registry,
    TLSConfig,
)
from protolink_grpc.agent.config import ServingConfig
from protolink_grpc.agent.edge_settings import edge_settings

over_v1 = pytest.mark.parametrize("binding", V1_NAMES)

V1 = {"a2a-version": "1.0"}
NOWHERE = "http://127.0.0.1:9/"
PART = "application/vnd.plgrpc.part+json"


def hotel(**options: Any) -> Agent:
    agent = Agent(
        card(),
        policy=CapabilityPolicy({"booking.write": {"effect": "require_approval"}}),
        approvals=Approvals(),
        authenticator=by_token,
        http=HttpOptions(),
        grace_s=0.2,
        **options,
    )

    @agent.tool(capabilities=["booking.write"])
    def book(nights: int) -> str:
        """Book a room."""
        return f"booked {nights} nights"

    return agent


async def booked(caller: Caller) -> Json:
    """A task that waits for an approval."""
    call = {"tool_name": "book", "args": {"nights": 1}, "call_id": "c1"}
    return await caller.task(message(parts=[{"data": {"type": "tool_call", "content": call}, "mediaType": PART}]))


def request_id(task: Json) -> str:
    (question,) = [part["data"]["content"] for part in task["status"]["message"]["parts"] if "data" in part]
    found: str = question["request_id"]
    return found


async def test_a_hook_is_told_the_method_of_a_jsonrpc_call() -> None:
    async def hook(method: str, metadata: Mapping[str, str]) -> Principal | None:
        return None if method.endswith("/CancelTask") else Principal("alice")

    async with playing(Stage(card(), http=HttpOptions(), authenticator=hook, grace_s=0.2)) as world:
        for call, status in (("GetTask", 200), ("CancelTask", 401), ("tasks/cancel", 401)):
            version = V1 if "/" not in call else {}
            body = {"jsonrpc": "2.0", "id": 1, "method": call, "params": {"id": "unknown"}}
            assert (await world.line.http.post("/", json=body, headers=version)).status_code == status


async def test_a_webhook_that_comes_with_a_message_needs_the_right_to_register_one(binding: str) -> None:
    rules = AccessRules({"*/CreateTaskPushNotificationConfig": "push"})
    async with playing(agent_with(A2AOptions(push=push()), access=rules)) as world:
        caller = world.caller(binding)
        assert (await caller.task("hello"))["status"]["state"] == "TASK_STATE_COMPLETED"
        with pytest.raises(Refused, match="scope push"):
            await caller.task("hello", configuration={"taskPushNotificationConfig": {"url": NOWHERE}})
        assert world.stage.works == 1


@over_v1
async def test_a_message_that_answers_an_approval_needs_the_right_to_answer_one(binding: str) -> None:
    rules = AccessRules({"/plgrpc.v1.ControlService/RespondApproval": "approve"})
    async with playing(hotel(access=rules)) as world:
        caller = world.caller(binding)
        task = await booked(caller)
        with pytest.raises(Refused, match="scope approve"):
            await caller.task(message("approve", taskId=task["id"]))
        assert await caller.get(task["id"]) == task


@over_v1
async def test_a_message_that_does_two_things_counts_as_one_call(binding: str) -> None:
    limit = RateLimit(0.001, 2)
    async with playing(hotel(rate_limit=limit)) as world:
        caller = world.caller(binding)
        task = await booked(caller)
        end = await caller.task(message("approve", taskId=task["id"]))
        assert end["status"]["state"] == "TASK_STATE_COMPLETED"


@over_v1
async def test_an_answer_is_to_an_approval_of_the_task_that_it_is_sent_to(binding: str) -> None:
    async with playing(hotel()) as world:
        caller = world.caller(binding)
        one, other = await booked(caller), await booked(caller)
        content = {"request_id": request_id(other), "approved": True}
        answer = {"data": {"type": "approval_decision", "content": content}, "mediaType": PART}
        with pytest.raises(Refused):
            await caller.task(message(taskId=one["id"], parts=[answer]))
        assert await caller.get(other["id"]) == other


async def test_the_description_of_an_agent_with_a_private_card_is_private() -> None:
    async with playing(agent_with(A2AOptions(public_card=False))) as world:
        http = world.line.http
        assert (await http.get("/openapi.json")).status_code == 401
        shown = await http.get("/openapi.json", headers={"authorization": "Bearer alice"})
        assert shown.status_code == 200
        assert shown.headers["cache-control"].startswith("private")


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/tasks"), ("GET", "/v1/card"), ("GET", "/status"), ("POST", "/")]
)
async def test_a_refusal_names_the_credentials_that_would_do(method: str, path: str) -> None:
    agent = Stage(card(), http=HttpOptions(), authenticator=BasicAuth({"ada": "secret"}), grace_s=0.2)
    async with playing(agent) as world:
        headers = V1 | {"content-type": "application/json"}
        refused = await world.line.http.request(method, path, headers=headers)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Basic realm=")


async def test_a_registry_names_the_credentials_that_would_do() -> None:
    registry = Registry(http=HttpOptions(), authenticator=BasicAuth({"ada": "secret"}))
    async with registry, httpx.AsyncClient() as http:
        refused = await http.get(f"{registry.http_url}/agents/")
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Basic realm=")


def test_certificates_that_only_the_http_port_demands_say_who_calls_there() -> None:
    tls = TLSConfig("cert.pem", "key.pem", "ca.pem", require_client_cert=True)
    assert isinstance(
        edge_settings(ServingConfig(http=HttpOptions(tls=tls)), "grpc://127.0.0.1:0").authenticate, MutualTLS
    )
    assert edge_settings(ServingConfig(http=HttpOptions()), "grpc://127.0.0.1:0").authenticate is None
