"""Versions, extensions and names of parameters. Numbers are those of the list of requirements."""

from collections.abc import Awaitable, Callable

import httpx
import pytest
from a2a_stage import DEMANDED, OFFERED, World
from a2a_wires import V03_NAMES, V1_NAMES, Caller, Json, Refused

pytestmark = pytest.mark.asyncio(loop_scope="module")

Asking = Callable[[Caller, str], Awaitable[object]]

OPERATIONS: dict[str, Asking] = {
    "SendMessage": lambda caller, task_id: caller.send("hello"),
    "SendStreamingMessage": lambda caller, task_id: caller.streamed("hello"),
    "GetTask": lambda caller, task_id: caller.get(task_id),
    "ListTasks": lambda caller, task_id: caller.listed(),
    "CancelTask": lambda caller, task_id: caller.cancel(task_id),
    "SubscribeToTask": lambda caller, task_id: caller.subscribed(task_id),
    "CreateTaskPushNotificationConfig": lambda caller, task_id: caller.set_push(task_id, "http://127.0.0.1:9/"),
    "GetTaskPushNotificationConfig": lambda caller, task_id: caller.get_push(task_id, "c"),
    "ListTaskPushNotificationConfigs": lambda caller, task_id: caller.list_push(task_id),
    "DeleteTaskPushNotificationConfig": lambda caller, task_id: caller.delete_push(task_id, "c"),
    "GetExtendedAgentCard": lambda caller, task_id: caller.extended_card(),
}

operations = pytest.mark.parametrize("operation", OPERATIONS)
over_v1 = pytest.mark.parametrize("binding", V1_NAMES)
over_v03 = pytest.mark.parametrize("binding", V03_NAMES)


def unless_new(caller: Caller, operation: str) -> None:
    if operation == "ListTasks" and not caller.is_v1:
        pytest.skip("v0.3 has no ListTasks")


# -- 21 ------------------------------------------------------------------------------------------------------------------


@operations
async def test_no_operation_works_without_the_extension_that_the_agent_demands(
    demanding: World, binding: str, operation: str
) -> None:
    """21: and another version of it is another extension."""
    caller = demanding.caller(binding)
    unless_new(caller, operation)
    for named in (None, OFFERED, f"{DEMANDED}/v2", "urn:example"):
        with pytest.raises(Refused) as refused:
            await OPERATIONS[operation](caller.with_headers(a2a_extensions=named), "t")
        assert refused.value.reason == "EXTENSION_SUPPORT_REQUIRED"
        assert refused.value.code == caller.expected("EXTENSION_SUPPORT_REQUIRED")
        assert DEMANDED in refused.value.message


@pytest.mark.parametrize("header", ["a2a-extensions", "x-a2a-extensions"])
@pytest.mark.parametrize("named", [DEMANDED, f"{OFFERED}, {DEMANDED}", f"{DEMANDED},urn:unknown"])
async def test_whoever_names_the_extension_is_let_in(demanding: World, binding: str, header: str, named: str) -> None:
    """21 and 26: among others, and under v0.3's name of the header, too."""
    caller = demanding.caller(binding, **{header: named})
    task = await caller.task("hello")
    assert await caller.get(task["id"]) == task
    assert (await caller.streamed("hello"))[0]["task"]
    assert await caller.extended_card()


async def test_extensions_that_the_agent_does_not_know_do_not_matter(world: World, binding: str) -> None:
    """21."""
    caller = world.caller(binding, **{"a2a-extensions": "urn:unknown"})
    assert (await caller.task("hello"))["status"]["state"] == "TASK_STATE_COMPLETED"


# -- 25 ------------------------------------------------------------------------------------------------------------------


@over_v1
@pytest.mark.parametrize("version", ["1.0", "1.0.7", "1.0.0"])
async def test_a_patch_of_the_version_does_not_matter(world: World, binding: str, version: str) -> None:
    """25."""
    caller = world.caller(binding, **{"a2a-version": version})
    task = await caller.task("hello")
    assert await caller.get(task["id"]) == task
    assert await caller.streamed("hello")


@over_v1
@operations
async def test_another_version_is_refused_by_every_operation(world: World, binding: str, operation: str) -> None:
    """25: also a later minor one, and nothing at all means 0.3."""
    caller = world.caller(binding)
    for version in (None, "", "0.3", "1.7", "1", "2.0", "99.0", "1.0-beta", "junk", "10.0"):
        with pytest.raises(Refused) as refused:
            await OPERATIONS[operation](caller.with_headers(a2a_version=version), "t")
        assert refused.value.reason == "VERSION_NOT_SUPPORTED"
        assert refused.value.code == caller.expected("VERSION_NOT_SUPPORTED")
        assert "1.0" in refused.value.metadata["supported"]


@over_v03
@pytest.mark.parametrize("version", [None, "", "0.3", "0.3.0"])
async def test_older_clients_need_to_say_no_version(world: World, binding: str, version: str | None) -> None:
    """25."""
    caller = world.caller(binding)
    caller = caller.with_headers(a2a_version=version)
    task = await caller.task("hello")
    assert await caller.get(task["id"]) == task


@over_v03
@operations
async def test_a_method_of_an_older_version_is_refused_to_who_says_another(
    world: World, binding: str, operation: str
) -> None:
    """25."""
    caller = world.caller(binding)
    unless_new(caller, operation)
    for version in ("1.0", "0.2", "2.0", "junk"):
        with pytest.raises(Refused) as refused:
            await OPERATIONS[operation](caller.with_headers(a2a_version=version), "t")
        assert refused.value.reason == "VERSION_NOT_SUPPORTED"
        assert refused.value.code == caller.expected("VERSION_NOT_SUPPORTED")


def rpc(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


@pytest.mark.parametrize(
    ("query", "header", "is_good"),
    [
        ("1.0", None, True),
        ("1.0.3", None, True),
        ("0.3", None, False),
        ("2.0", None, False),
        ("", None, False),
        ("2.0", "1.0", True),
        ("1.0", "2.0", False),
    ],
)
async def test_the_version_may_be_a_query_parameter(
    world: World, query: str, header: str | None, is_good: bool
) -> None:
    """25: over HTTP; where both are there the header counts."""
    http: httpx.AsyncClient = world.line.http
    headers = {"authorization": f"Bearer {world.somebody()}"} | ({"A2A-Version": header} if header else {})
    listed = await http.get("/tasks", params={"A2A-Version": query}, headers=headers)
    called = await http.post("/", params={"A2A-Version": query}, json=rpc("ListTasks", {}), headers=headers)
    assert listed.status_code == (200 if is_good else 400)
    assert called.json().get("error", {}).get("code") == (None if is_good else -32009)


# -- 26 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["A2A-Version", "a2a-version", "A2A-VERSION"])
async def test_names_of_headers_have_no_case(world: World, name: str) -> None:
    """26. gRPC's metadata is in lower case anyway."""
    headers = {"authorization": f"Bearer {world.somebody()}", name: "1.0"}
    assert (await world.line.http.get("/tasks", headers=headers)).status_code == 200


async def test_a_list_in_two_headers_is_one_list(demanding: World) -> None:
    """26 and 21: over HTTP a list may be cut into several headers of one name."""
    headers = [
        ("authorization", f"Bearer {demanding.somebody()}"),
        ("a2a-version", "1.0"),
        ("a2a-extensions", OFFERED),
        ("a2a-extensions", DEMANDED),
    ]
    listed = await demanding.line.http.get("/tasks", headers=headers)
    called = await demanding.line.http.post("/", json=rpc("ListTasks", {}), headers=headers)
    assert listed.status_code == 200
    assert "result" in called.json()
