"""Spelling and errors are the same over every binding. Numbers are those of the list of requirements."""

import json
import re
from typing import Any

import httpx
import pytest
from a2a_stage import World
from a2a_wires import A2A_DOMAIN, TYPE, V1_NAMES, Caller, Json, Refused, frames_of, message

pytestmark = pytest.mark.asyncio(loop_scope="module")

over_v1 = pytest.mark.parametrize("binding", V1_NAMES)


def own(world: World, **more: str) -> dict[str, str]:
    return {"authorization": f"Bearer {world.somebody()}", "a2a-version": "1.0"} | more


def rpc(method: str, params: Any, call_id: Any = 1) -> Json:
    return {"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}


# -- 27: data ------------------------------------------------------------------------------------------------------------


async def test_json_is_spelled_as_the_protobuf_says(world: World) -> None:
    """27: camelCase, names of enums, times in UTC with milliseconds, required fields."""
    http, headers = world.line.http, own(world)
    body = {"message": message("many", metadata={"snake_case": {"camelCase": 1}})}
    task = (await http.post("/message:send", json=body, headers=headers)).json()["task"]
    assert set(task) <= {"id", "contextId", "status", "artifacts", "history", "metadata"}
    assert {"id", "contextId", "status"} <= set(task)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", task["status"]["timestamp"])
    (sent,) = [each for each in task["history"] if each["role"] == "ROLE_USER"]
    assert sent["metadata"] == {"snake_case": {"camelCase": 1}}
    assert {"messageId", "role", "parts"} <= set(sent)
    assert all({"artifactId", "parts"} <= set(each) for each in task["artifacts"])


async def test_text_is_not_escaped_nor_changed(caller: Caller) -> None:
    """27: whatever language it is in."""
    text = 'echo Grüße, 世界 🌍 \u2028 \\ " \t'
    task = await caller.task(text)
    assert task["history"][0]["parts"][0]["text"] == text


@pytest.mark.parametrize("binding", ["jsonrpc", "rest", "jsonrpc-0.3", "rest-0.3"])
async def test_fields_that_nobody_knows_are_ignored(world: World, binding: str) -> None:
    """27: what a later version adds must not break an earlier server."""
    caller = world.caller(binding)
    task = await caller.task(message("hello", aFieldOfTomorrow={"x": 1}), another=[1])
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


BAD: dict[str, tuple[Json, str]] = {
    "no message": ({}, "message"),
    "no id": ({"message": {"role": "ROLE_USER", "parts": [{"text": "x"}]}}, "messageid"),
    "no role": ({"message": {"messageId": "m", "parts": [{"text": "x"}]}}, "role"),
    "no parts": ({"message": {"messageId": "m", "role": "ROLE_USER"}}, "parts"),
    "empty part": ({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{}]}}, "parts[0]"),
    "bad webhook": (
        {"message": message("x"), "configuration": {"taskPushNotificationConfig": {"id": "c"}}},
        "url",
    ),
}


@over_v1
@pytest.mark.parametrize("case", BAD)
async def test_all_input_is_looked_at_before_any_work_is_done(world: World, binding: str, case: str) -> None:
    """27: and the answer names what is wrong, on every binding alike."""
    params, name = BAD[case]
    caller, works = world.caller(binding), world.stage.works
    with pytest.raises(Refused) as sent:
        await caller.call("SendMessage", dict(params))
    with pytest.raises(Refused) as streamed:
        async for _ in caller.stream("SendStreamingMessage", dict(params)):
            pass
    for refused in (sent.value, streamed.value):
        assert refused.reason == "INVALID_ARGUMENT"
        assert refused.code == caller.expected("INVALID_ARGUMENT")
        assert any(name in each for each in refused.fields), refused
    assert world.stage.works == works


@pytest.mark.parametrize("binding", ["jsonrpc", "rest"])
@pytest.mark.parametrize(
    "part",
    [
        {"text": 1},
        {"text": "a", "url": "b"},
        {"raw": "not base64!"},
        {"text": "a", "metadata": []},
        {"kind": "text"},
        "text",
        None,
    ],
    ids=str,
)
async def test_a_part_of_a_wrong_kind_is_refused_with_its_place(world: World, binding: str, part: Any) -> None:
    """27."""
    caller = world.caller(binding)
    with pytest.raises(Refused) as refused:
        await caller.send(message(parts=[{"text": "hello"}, part]))
    assert refused.value.code == caller.expected("INVALID_ARGUMENT")
    assert refused.value.fields[0].startswith("message.parts[1]")


# -- 28: JSON-RPC --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call_id", ["text", "", 0, 1, -7, 2**53, 1.5])
async def test_the_id_of_a_call_is_repeated_as_it_is(world: World, call_id: Any) -> None:
    """28: in results, errors and streams."""
    http, headers = world.line.http, own(world)
    sending = {"message": message("hello")}
    for method, params in (("ListTasks", {}), ("GetTask", {"id": "t"}), ("NoSuchMethod", {}), ("GetTask", [])):
        answer = (await http.post("/", json=rpc(method, params, call_id), headers=headers)).json()
        assert answer["id"] == call_id
        assert type(answer["id"]) is type(call_id)
    async with http.stream(
        "POST", "/", json=rpc("SendStreamingMessage", sending, call_id), headers=headers
    ) as response:
        frames = [frame.data async for frame in frames_of(response)]
    assert frames
    assert all(frame["id"] == call_id and frame["jsonrpc"] == "2.0" for frame in frames)
    assert all(len(frame["result"]) == 1 for frame in frames)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"", -32700),
        (b"\xff\xfe", -32700),
        (b"[]", -32600),
        (b"1", -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"GetTask","params":{"id":"t"}}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"GetTask","params":{"id":"t"}}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"getTask","params":{}}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[1]}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{}}', -32602),
    ],
)
async def test_a_call_that_is_none_has_json_rpcs_own_error(world: World, body: bytes, code: int) -> None:
    """28."""
    headers = own(world) | {"content-type": "application/json"}
    response = await world.line.http.post("/", content=body, headers=headers)
    answer = response.json()
    assert response.status_code == 200
    assert answer["jsonrpc"] == "2.0"
    assert answer["error"]["code"] == code
    assert "id" in answer
    assert "result" not in answer


async def test_deleting_answers_with_nothing(world: World) -> None:
    """28: `result` is there, and null; over REST an empty object."""
    caller = world.caller("jsonrpc")
    task = await caller.task("ask what?")
    assert await caller.delete_push(task["id"], "c") is None
    assert await caller.with_headers().delete_push(task["id"], "c") is None
    assert await type(world.caller("rest"))(world.line, caller.headers).delete_push(task["id"], "c") == {}


async def test_an_error_of_json_rpc_has_its_details_as_typed_objects(world: World) -> None:
    """28."""
    response = await world.line.http.post("/", json=rpc("GetTask", {"id": "t"}), headers=own(world))
    error = response.json()["error"]
    assert error["code"] == -32001
    (info,) = error["data"]
    assert info["@type"] == f"{TYPE}ErrorInfo"
    assert (info["reason"], info["domain"]) == ("TASK_NOT_FOUND", A2A_DOMAIN)
    assert all(type(value) is str for value in info["metadata"].values())


# -- 29: REST and gRPC ---------------------------------------------------------------------------------------------------


async def test_an_error_of_rest_has_the_form_that_google_gives_it(world: World) -> None:
    """29."""
    response = await world.line.http.get("/tasks/t", headers=own(world))
    body = response.json()
    assert response.status_code == 404
    assert set(body) == {"error"}
    assert (body["error"]["code"], body["error"]["status"]) == (404, "NOT_FOUND")
    (info,) = body["error"]["details"]
    assert (info["@type"], info["reason"], info["domain"]) == (f"{TYPE}ErrorInfo", "TASK_NOT_FOUND", A2A_DOMAIN)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [(None, "application/json"), ("application/a2a+json", "application/a2a+json"), ("*/*", "application/json")],
)
async def test_rest_answers_in_the_media_type_that_its_caller_speaks(
    world: World, accept: str | None, expected: str
) -> None:
    """29: v1.0.1 has one of its own, which a caller that does not name it may not know."""
    headers = own(world) | ({"accept": accept} if accept else {})
    for path in ("/tasks", "/tasks/t"):
        response = await world.line.http.get(path, headers=headers)
        assert response.headers["content-type"].split(";")[0] == expected


@pytest.mark.parametrize("path", ["/", "/message:send", "/message:stream", "/tasks/t:cancel"])
@pytest.mark.parametrize("given", ["text/plain", "application/xml", "multipart/form-data; boundary=x"])
async def test_a_body_of_another_media_type_is_refused(world: World, path: str, given: str) -> None:
    """29 and 28: by its HTTP status."""
    response = await world.line.http.post(path, content=b"{}", headers=own(world) | {"content-type": given})
    assert response.status_code == 415
    if path == "/":
        assert response.json()["error"]["code"] == -32005


@pytest.mark.parametrize("verb", ["GET", "POST"])
async def test_subscribing_has_both_verbs(world: World, verb: str) -> None:
    """29: the protobuf says GET, the text says POST."""
    caller = world.caller("rest")
    task = await caller.task("ask what?")
    async with world.line.http.stream(verb, f"/tasks/{task['id']}:subscribe", headers=caller.headers) as response:
        assert response.status_code == 200
        async for frame in frames_of(response):
            assert frame.data["task"]["id"] == task["id"]
            break


@pytest.mark.parametrize("name", ["rest", "rest-0.3"])
@pytest.mark.parametrize("body", [b"", b"{}", b"null"], ids=["nothing", "an object", "null"])
async def test_a_request_without_fields_may_say_so_with_null(world: World, name: str, body: bytes) -> None:
    """29: some clients write `null` where a request has no body."""
    caller, http = world.caller(name), world.line.http
    path = f"{'/v1' if name == 'rest-0.3' else ''}/tasks/{(await caller.task('ask what?'))['id']}"
    headers = caller.headers | {"content-type": "application/json"}
    async with http.stream("POST", f"{path}:subscribe", headers=headers, content=body) as response:
        assert response.status_code == 200
    canceled = await http.post(f"{path}:cancel", headers=headers, content=body)
    assert canceled.status_code == 200
    sent = await http.post(f"{path.partition('/tasks')[0]}/message:send", headers=headers, content=b"null")
    assert sent.status_code == 400


async def test_paths_and_verbs_that_there_are_not_have_their_http_status(world: World) -> None:
    """29."""
    http: httpx.AsyncClient = world.line.http
    assert (await http.get("/no/such/path/at/all", headers=own(world))).status_code == 404
    assert (await http.put("/tasks/t", json={}, headers=own(world))).status_code in (404, 405)


async def test_a_parameter_that_is_there_twice_is_refused(world: World) -> None:
    """27: neither of the two can be right."""
    response = await world.line.http.get("/tasks?pageSize=1&pageSize=2", headers=own(world))
    assert response.status_code == 400


# -- 30: agreement -------------------------------------------------------------------------------------------------------


class Plain:
    """Names ids and times by the order in which they appear, so that two accounts can be compared."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def __call__(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            # v0.3 says with a flag what v1.0 says by ending the stream.
            return {name: self(each, name) for name, each in sorted(value.items()) if name != "final"}
        if isinstance(value, list):
            return [self(each, key) for each in value]
        if key == "timestamp":
            assert value.endswith("Z")
            return "<time>"
        if key in ("id", "contextId", "taskId", "messageId", "artifactId"):
            return self._names.setdefault(value, f"<{len(self._names)}>")
        return value


async def account(caller: Caller) -> list[Any]:
    """What one caller is told in a story of all operations that both versions have."""
    told: list[Any] = []

    async def tried(asking: Any) -> None:
        try:
            told.append(await asking)
        except Refused as refused:
            # Paths of fields are told as each version spells them.
            told.append({"refused": refused.reason})

    def says(text: str, **fields: Any) -> Json:
        return message(text, **fields)

    data = {"data": {"a": [1, 2.5, None, True]}, "mediaType": "application/json"}
    await tried(caller.send(says("hello")))
    await tried(caller.send(message(parts=[{"text": "echo"}, {"text": "x", "metadata": {"k": "v"}}, data])))
    await tried(caller.send(says("break")))
    await tried(caller.send(says("refuse", metadata={"why": {"not": 1}})))
    await tried(caller.streamed(says("many")))
    task = await caller.task(says("ask which?"))
    told.append(task)
    await tried(caller.get(task["id"]))
    await tried(caller.get(task["id"], 1))
    await tried(caller.set_push(task["id"], "http://127.0.0.1:9/", id="c", token="t"))
    await tried(caller.get_push(task["id"], "c"))
    await tried(caller.list_push(task["id"]))
    await tried(caller.delete_push(task["id"], "c"))
    told[-1] = None  # nothing, however it is written
    await tried(caller.get_push(task["id"], "c"))
    await tried(caller.send(says("this", taskId=task["id"], contextId="another")))
    await tried(caller.streamed(says("this one", taskId=task["id"])))
    await tried(caller.subscribed(task["id"]))
    await tried(caller.cancel(task["id"]))
    waiting = await caller.task(says("login"))
    await tried(caller.cancel(waiting["id"]))
    await tried(caller.cancel(waiting["id"]))
    await tried(caller.send(says("too late", taskId=waiting["id"])))
    await tried(caller.get("no-such-task"))
    await tried(caller.send(message(parts=[{"url": "https://example.com/", "mediaType": "video/mp4"}])))
    await tried(caller.send(message(parts=[])))
    return told


def without_ids_of_messages(value: Any) -> Any:
    return json.loads(re.sub(r'"<\d+>"', '"<id>"', json.dumps(value)))


async def test_the_same_story_is_told_by_every_binding(world: World, binding: str) -> None:
    """30."""
    told = Plain()(await account(world.caller(binding)))
    expected = Plain()(await account(world.caller("jsonrpc")))
    for step, (mine, theirs) in enumerate(zip(told, expected, strict=True)):
        assert without_ids_of_messages(mine) == without_ids_of_messages(theirs), step


@over_v1
async def test_lists_are_the_same_over_every_binding(world: World, binding: str) -> None:
    """30: to the last field."""
    name = world.somebody()
    first = world.caller("jsonrpc", name)
    for text in ("many", "ask what?", "break"):
        await first.task(text)
    asked = {"includeArtifacts": True, "historyLength": 5, "pageSize": 2}
    mine, theirs = await world.caller(binding, name).listed(**asked), await first.listed(**asked)
    plain = Plain()
    assert plain(mine) == plain(theirs)
    assert mine["nextPageToken"] == theirs["nextPageToken"]


@over_v1
async def test_an_error_is_the_same_over_every_binding(world: World, binding: str) -> None:
    """30: sentence, reason, domain and metadata; only the code is each binding's own."""
    found = []
    for each in (world.caller(binding), world.caller("jsonrpc")):
        task = await each.task("done")
        with pytest.raises(Refused) as refused:
            await each.cancel(task["id"])
        assert refused.value.code == each.expected("TASK_NOT_CANCELABLE")
        found.append(refused.value.shape(task["id"])[1:])
    assert found[0] == found[1]
