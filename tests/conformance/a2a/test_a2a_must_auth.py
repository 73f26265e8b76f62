"""Access by principal and tenant, for every operation of every binding. Numbers are those of the list of requirements."""

import logging
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from a2a_stage import World, agent_with, card, playing, push
from a2a_wires import V1_NAMES, Caller, Json, Refused, message
from test_a2a_must_negotiate import OPERATIONS, Asking, unless_new

from protolink_grpc import A2AOptions, PermissionDeniedError, Principal

pytestmark = pytest.mark.asyncio(loop_scope="module")

over_v1 = pytest.mark.parametrize("binding", V1_NAMES)

ON_A_TASK: dict[str, Asking] = {
    "SendMessage": lambda caller, task_id: caller.send(message("hello", taskId=task_id)),
    "SendStreamingMessage": lambda caller, task_id: caller.streamed(message("hello", taskId=task_id)),
    "GetTask": lambda caller, task_id: caller.get(task_id),
    "CancelTask": lambda caller, task_id: caller.cancel(task_id),
    "SubscribeToTask": lambda caller, task_id: caller.subscribed(task_id),
    "CreateTaskPushNotificationConfig": lambda caller, task_id: caller.set_push(task_id, "http://127.0.0.1:9/"),
    "GetTaskPushNotificationConfig": lambda caller, task_id: caller.get_push(task_id, "c"),
    "ListTaskPushNotificationConfigs": lambda caller, task_id: caller.list_push(task_id),
    "DeleteTaskPushNotificationConfig": lambda caller, task_id: caller.delete_push(task_id, "c"),
}
on_a_task = pytest.mark.parametrize("operation", ON_A_TASK)

UNAUTHENTICATED = {"grpc": "UNAUTHENTICATED", "jsonrpc": 401, "rest": 401}
"""Over HTTP its status counts: there is no request yet whose version would say how JSON-RPC spells it."""


async def refusal(asking: Asking, caller: Caller, task_id: str) -> Refused:
    with pytest.raises(Refused) as refused:
        await asking(caller, task_id)
    return refused.value


# -- 31: who is not known ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_every_operation_needs_credentials(world: World, binding: str, operation: str) -> None:
    """31."""
    caller = world.caller(binding, "-")
    unless_new(caller, operation)
    for credentials in (None, "Bearer", "Basic YWxpY2U6cHc="):
        refused = await refusal(OPERATIONS[operation], caller.with_headers(authorization=credentials), "t")
        assert refused.code == UNAUTHENTICATED[binding.partition("-")[0]]


async def test_who_has_no_credentials_is_told_so_before_the_request_is_looked_at(world: World) -> None:
    """31: and which credentials would do."""
    for path, body in (("/", "{not json"), ("/message:send", "{not json"), ("/v1/message:send", "{not json")):
        response = await world.line.http.post(path, content=body, headers={"content-type": "application/json"})
        assert response.status_code == 401
        assert response.headers["www-authenticate"]


# -- 31: what belongs to others ------------------------------------------------------------------------------------------


@on_a_task
@pytest.mark.parametrize("text", ["ask what?", "done"])
async def test_a_task_of_somebody_else_is_not_there(world: World, binding: str, operation: str, text: str) -> None:
    """31 and 11: and nothing in the answer tells it from one that never was."""
    owner, other = world.caller(binding), world.caller(binding)
    task = await owner.task(text)
    await owner.set_push(task["id"], "http://127.0.0.1:9/", id="c")
    unknown = "0" * len(task["id"])
    foreign, missing = await refusal(ON_A_TASK[operation], other, task["id"]), None
    missing = await refusal(ON_A_TASK[operation], other, unknown)
    assert foreign.reason == "TASK_NOT_FOUND"
    assert foreign.code == other.expected("TASK_NOT_FOUND")
    assert foreign.shape(task["id"]) == missing.shape(unknown)
    assert await owner.get(task["id"]) == task


@over_v1
async def test_tasks_of_others_are_not_listed_nor_counted(world: World, binding: str) -> None:
    """31 and 13."""
    owner, other = world.caller(binding), world.caller(binding)
    task = await owner.task("done")
    found = await other.listed(contextId=task["contextId"])
    assert (found["tasks"], found["totalSize"]) == ([], 0)


async def test_a_context_of_somebody_else_is_as_new_as_any(world: World, binding: str) -> None:
    """9 and 31: no answer reveals that another caller has it, and the two share nothing."""
    owner, other = world.caller(binding), world.caller(binding)
    mine = await owner.task("done")
    context = mine["contextId"]
    theirs = await other.task(message("hello", contextId=context))
    await other.streamed(message("hello again", contextId=context))
    assert theirs["contextId"] == context
    if other.is_v1:
        assert [each["id"] for each in (await owner.listed(contextId=context))["tasks"]] == [mine["id"]]
        assert theirs["id"] in {each["id"] for each in (await other.listed(contextId=context))["tasks"]}
        assert (await other.listed(contextId=context))["totalSize"] == 2
    for caller, task in ((owner, theirs), (other, mine)):
        assert (await refusal(ON_A_TASK["GetTask"], caller, task["id"])).reason == "TASK_NOT_FOUND"


@over_v1
async def test_a_context_of_another_tenant_is_as_new_as_any(world: World, binding: str) -> None:
    """31: though its caller is the same."""
    caller = world.caller(binding)
    red, blue = caller.in_tenant("red"), caller.in_tenant("blue")
    mine = await red.task("done")
    theirs = await blue.task(message("hello", contextId=mine["contextId"]))
    for each, task in ((red, mine), (blue, theirs)):
        assert [found["id"] for found in (await each.listed(contextId=mine["contextId"]))["tasks"]] == [task["id"]]


async def test_one_principal_is_the_same_over_every_binding(world: World, binding: str) -> None:
    """30 and 31."""
    name = world.somebody()
    task = await world.caller("grpc", name).task("ask what?")
    assert (await world.caller(binding, name).get(task["id"]))["contextId"] == task["contextId"]


# -- tenants -------------------------------------------------------------------------------------------------------------


@over_v1
@on_a_task
@pytest.mark.parametrize(("home", "away"), [("red", "blue"), ("red", ""), ("", "red")])
async def test_a_task_of_another_tenant_is_not_there(
    world: World, binding: str, operation: str, home: str, away: str
) -> None:
    """31: though its caller is the same."""
    caller = world.caller(binding)
    owner, other = caller.in_tenant(home), caller.in_tenant(away)
    task = await owner.task("ask what?")
    await owner.set_push(task["id"], "http://127.0.0.1:9/", id="c")
    unknown = "0" * len(task["id"])
    foreign = await refusal(ON_A_TASK[operation], other, task["id"])
    missing = await refusal(ON_A_TASK[operation], other, unknown)
    assert foreign.reason == "TASK_NOT_FOUND"
    assert foreign.shape(task["id"]) == missing.shape(unknown)


@over_v1
async def test_every_operation_works_inside_of_a_tenant(world: World, binding: str) -> None:
    """31: REST names it in the path, the others in the request."""
    caller = world.caller(binding).in_tenant("red")
    task = await caller.task("ask what?")
    assert await caller.get(task["id"]) == task
    config = await caller.set_push(task["id"], "http://127.0.0.1:9/", id="c")
    assert await caller.get_push(task["id"], "c") == config
    assert (await caller.list_push(task["id"]))["configs"] == [config]
    await caller.delete_push(task["id"], "c")
    assert [each["id"] for each in (await caller.listed())["tasks"]] == [task["id"]]
    assert (await caller.in_tenant("blue").listed())["tasks"] == []
    assert (await caller.in_tenant("").listed())["tasks"] == []
    stream = caller.subscribe(task["id"])
    assert (await anext(stream))["task"]["id"] == task["id"]
    assert (await caller.cancel(task["id"]))["status"]["state"] == "TASK_STATE_CANCELED"
    await stream.aclose()
    assert await caller.extended_card()


@over_v1
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_tenant_that_the_agent_does_not_serve_is_refused(bare: World, binding: str, operation: str) -> None:
    """31: where it has a list of them."""
    caller = bare.caller(binding, "-")
    refused = await refusal(OPERATIONS[operation], caller.in_tenant("nobody"), "t")
    if refused.reason in ("PUSH_NOTIFICATION_NOT_SUPPORTED", "UNSUPPORTED_OPERATION"):
        return  # not offered to any caller
    assert refused.code == caller.expected("INVALID_ARGUMENT")
    assert refused.fields == ["tenant"]
    task = await caller.in_tenant("acme").task("ask what?")
    assert await caller.in_tenant("acme").get(task["id"]) == task


@pytest.mark.parametrize("operation", ["send", "stream", "cancel", "push", "subscribe"])
async def test_rest_takes_the_tenant_from_the_body_too(world: World, operation: str) -> None:
    """31: `tenant` is a field of the request, and the path without a tenant takes a whole body."""
    caller = world.caller("rest")
    task = await caller.in_tenant("red").task("ask what?")
    path, body = rest_request(operation, task["id"])
    request = world.line.http.stream("POST", path, json=body | {"tenant": "red"}, headers=caller.headers)
    async with request as response:  # a subscription goes on
        assert response.status_code == 200, await response.aread()


def rest_request(operation: str, task_id: str) -> tuple[str, Json]:
    paths: dict[str, tuple[str, Json]] = {
        "send": ("/message:send", {"message": message("on", taskId=task_id)}),
        "stream": ("/message:stream", {"message": message("on", taskId=task_id)}),
        "cancel": (f"/tasks/{task_id}:cancel", {}),
        "push": (f"/tasks/{task_id}/pushNotificationConfigs", {"url": "http://127.0.0.1:9/"}),
        "subscribe": (f"/tasks/{task_id}:subscribe", {}),
    }
    return paths[operation]


@pytest.mark.parametrize("operation", ["send", "stream", "cancel", "push"])
async def test_rest_refuses_a_tenant_that_the_path_contradicts(world: World, operation: str) -> None:
    """31."""
    caller = world.caller("rest")
    task = await caller.in_tenant("red").task("ask what?")
    path, body = rest_request(operation, task["id"])
    response = await world.line.http.post(f"/red{path}", json=body | {"tenant": "blue"}, headers=caller.headers)
    assert response.status_code == 400
    details = response.json()["error"]["details"]
    assert any(each.get("fieldViolations", [{}])[0].get("field") == "tenant" for each in details)


async def test_a_tenant_cannot_pretend_to_be_another_principal(world: World, binding: str) -> None:
    """31: no tenant name gives access to tasks of another owner."""
    if binding not in V1_NAMES:
        pytest.skip("v0.3 has no tenants")
    victim = world.somebody()
    task = await world.caller(binding, victim).task("ask what?")
    thief = world.caller(binding)
    for tenant in (victim, f"#tenant={victim}", f"{victim}#tenant="):
        with pytest.raises(Refused) as refused:
            await thief.call("GetTask", {"id": task["id"], "tenant": tenant.replace("#", "%23")})
        assert refused.value.reason in ("TASK_NOT_FOUND", "INVALID_ARGUMENT", "UNSUPPORTED_OPERATION")


# -- 33 ------------------------------------------------------------------------------------------------------------------


async def test_credentials_are_not_logged_nor_repeated(
    world: World, binding: str, caplog: pytest.LogCaptureFixture
) -> None:
    """33."""
    with caplog.at_level(logging.DEBUG):
        refused = await refusal(ON_A_TASK["GetTask"], world.caller(binding, "-", authorization="Basic hushhush"), "t")
        caller = world.caller(binding)
        task = await caller.task("ask what?")
        await caller.set_push(
            task["id"], "http://127.0.0.1:9/", authentication={"scheme": "Bearer", "credentials": "quietquiet"}
        )
    assert "hushhush" not in refused.message
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("protolink_grpc")]
    assert not any(secret in line for line in ours for secret in ("hushhush", "quietquiet"))


# -- 31: who is known, and may not ---------------------------------------------------------------------------------------

METHODS_V03 = {
    "SubscribeToTask": "TaskSubscription",
    "ListTaskPushNotificationConfigs": "ListTaskPushNotificationConfig",
    "GetExtendedAgentCard": "GetAgentCard",
}


class Gate:
    """Allows every method to every caller, except the forbidden ones."""

    def __init__(self) -> None:
        self.forbidden = ""

    def __call__(self, method: str, principal: Principal) -> None:
        if method == self.forbidden:
            raise PermissionDeniedError("not for you", method=method)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gated() -> AsyncIterator[tuple[World, Gate]]:
    """An agent whose rules can be changed."""
    gate = Gate()
    options = A2AOptions(push=push(), extended_card=card())
    async with playing(agent_with(options, access=gate)) as found:
        yield found, gate


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_rule_for_a_method_holds_over_every_binding_of_its_version(
    gated: tuple[World, Gate], binding: str, operation: str
) -> None:
    """31: one name per operation and version, however it is called."""
    world, gate = gated
    caller = world.caller(binding)
    unless_new(caller, operation)
    service = "lf.a2a.v1" if caller.is_v1 else "a2a.v1"
    name = operation if caller.is_v1 else METHODS_V03.get(operation, operation)
    gate.forbidden = f"/{service}.A2AService/{name}"
    try:
        refused = await refusal(OPERATIONS[operation], caller, "t")
    finally:
        gate.forbidden = ""
    assert refused.reason == "PERMISSION_DENIED"
    assert refused.code in ("PERMISSION_DENIED", 403, -32600, -32603)


async def test_rest_takes_the_tenant_from_the_query_of_a_request_without_a_body(world: World) -> None:
    """31."""
    caller = world.caller("rest")
    task = await caller.in_tenant("red").task("ask what?")
    for path, expected in ((f"/tasks/{task['id']}?tenant=red", 200), (f"/tasks/{task['id']}?tenant=blue", 404)):
        assert (await world.line.http.get(path, headers=caller.headers)).status_code == expected


async def test_rest_refuses_a_tenant_of_the_query_that_the_path_contradicts(world: World) -> None:
    """31."""
    caller = world.caller("rest")
    task = await caller.in_tenant("red").task("ask what?")
    response = await world.line.http.get(f"/red/tasks/{task['id']}?tenant=blue", headers=caller.headers)
    assert response.status_code == 400
