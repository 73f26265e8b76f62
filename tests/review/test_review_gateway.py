import asyncio, json, time, tracemalloc
from dataclasses import replace
import httpx, pytest
from a2a_stage import PATIENCE_S, World, agent_with, by_token, card, playing, push
from a2a_wires import Refused, message, Json, everything
from protolink_grpc import (A2AOptions, Agent, AccessRules, Approvals, CapabilityPolicy, HttpOptions, Limits, Principal, PushOptions, Registry)

def rpc(method, params, call_id=1):
    return {"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}

H = {"a2a-version": "1.0"}
def auth(n): return H | {"authorization": f"Bearer {n}"}


async def test_openapi_of_a_private_card_is_private():
    async with playing(agent_with(A2AOptions(public_card=False))) as w:
        assert (await w.line.http.get("/.well-known/agent-card.json")).status_code == 401
        assert (await w.line.http.get("/openapi.json")).status_code == 401

async def test_the_hook_is_told_the_method_over_jsonrpc():
    seen = []
    async def hook(method, metadata):
        seen.append(method)
        return None if method.endswith("/CancelTask") else Principal("alice")
    agent = agent_with(authenticated=False); 
    from a2a_stage import Stage
    agent = Stage(card(), http=HttpOptions(), authenticator=hook, grace_s=.2)
    async with playing(agent) as w:
        r = await w.line.http.post("/tasks/x:cancel", headers=H, json={})
        assert r.status_code == 401
        r = await w.line.http.post("/", headers=H, json=rpc("CancelTask", {"id": "x"}))
        assert r.status_code == 401, (r.text, seen)

@pytest.mark.parametrize("binding", ["grpc", "jsonrpc", "rest"])
async def test_an_inline_webhook_needs_the_right_to_register_one(binding):
    rules = AccessRules({"*/CreateTaskPushNotificationConfig": "push"})
    async with playing(agent_with(A2AOptions(push=push()), access=rules)) as w:
        c = w.caller(binding)
        t = await c.task("hello")
        with pytest.raises(Refused):
            await c.set_push(t["id"], "http://127.0.0.1:9/")
        with pytest.raises(Refused):
            await c.task("hello", configuration={"taskPushNotificationConfig": {"url": "http://127.0.0.1:9/"}})

@pytest.mark.parametrize("binding", ["grpc", "jsonrpc", "rest"])
async def test_an_approval_by_message_needs_the_right_to_answer(binding):
    rules = AccessRules({"/protolink.v1.ControlService/RespondApproval": "approve"})
    agent = Agent(card(), policy=CapabilityPolicy({"booking.write": {"effect": "require_approval"}}), approvals=Approvals(), authenticator=by_token, http=HttpOptions(), access=rules, grace_s=.2)
    @agent.tool(capabilities=["booking.write"])
    def book(nights: int) -> str:
        "Book"
        return "booked"
    async with playing(agent) as w:
        c = w.caller(binding)
        call = {"tool_name": "book", "args": {"nights": 1}, "call_id": "c1"}
        t = await c.task(message(parts=[{"data": {"type": "tool_call", "content": call}, "mediaType": "application/vnd.protolink.part+json"}]))
        with pytest.raises(Refused):
            await c.task(message("approve", taskId=t["id"]))

@pytest.mark.parametrize("binding", ["grpc", "jsonrpc", "rest"])
async def test_an_answer_is_to_an_approval_of_that_task(binding):
    agent = Agent(card(), policy=CapabilityPolicy({"booking.write": {"effect": "require_approval"}}), approvals=Approvals(), authenticator=by_token, http=HttpOptions(), grace_s=.2)
    @agent.tool(capabilities=["booking.write"])
    def book(nights: int) -> str:
        "Book"
        return "booked"
    async with playing(agent) as w:
        c = w.caller(binding)
        call = {"tool_name": "book", "args": {"nights": 1}, "call_id": "c1"}
        ask = lambda: message(parts=[{"data": {"type": "tool_call", "content": call}, "mediaType": "application/vnd.protolink.part+json"}])
        a, b = await c.task(ask()), await c.task(ask())
        rid = [p for p in b["status"]["message"]["parts"] if "data" in p][0]["data"]["content"]["request_id"]
        async with asyncio.timeout(5):
            with pytest.raises(Refused):
                await c.task(message(taskId=a["id"], parts=[{"data": {"type": "approval_decision", "content": {"request_id": rid, "approved": True}}, "mediaType": "application/vnd.protolink.part+json"}]))

@pytest.mark.parametrize("binding", ["grpc", "jsonrpc", "rest"])
async def test_cancel_and_webhooks_find_the_tenant_wherever_it_is(binding):
    async with playing(agent_with(A2AOptions(push=push()))) as w:
        name = w.somebody()
        c = w.caller(binding, name).in_tenant("acme")
        t = await c.begin("ask")
        r = await w.line.http.post(f"/tasks/{t['id']}/pushNotificationConfigs", headers=auth(name), json={"tenant": "acme", "url": "http://127.0.0.1:9/"})
        assert r.status_code == 200, r.text
        r = await w.line.http.post(f"/tasks/{t['id']}:cancel", headers=auth(name), json={"tenant": "acme"})
        assert r.status_code == 200, r.text

async def test_the_same_context_in_two_tenants():
    async with playing(agent_with(A2AOptions())) as w:
        name = w.somebody()
        c = w.caller("jsonrpc", name)
        await c.in_tenant("a").task(message("hi", contextId="default"))
        await c.in_tenant("b").task(message("hi", contextId="default"))

async def test_the_same_context_of_two_principals():
    async with playing(agent_with(A2AOptions())) as w:
        await w.caller("jsonrpc").task(message("hi", contextId="default"))
        await w.caller("jsonrpc").task(message("hi", contextId="default"))

async def test_a_long_id_is_refused():
    async with playing(agent_with()) as w:
        r = await w.line.http.post("/", headers=auth("x"), json=rpc("GetTask", {"id": "x"}, "i" * 3_000_000))
        assert len(r.content) < 10_000

async def test_head_of_a_stream_ends():
    async with playing(agent_with()) as w:
        c = w.caller("rest", "bob")
        text, script = w.stage.script()
        t = await c.begin(text)
        host, port = w.url.removeprefix("http://").split(":")
        r, wr = await asyncio.open_connection(host, int(port))
        head = f"HEAD /tasks/{t['id']}:subscribe HTTP/1.1\r\nHost: localhost\r\nA2A-Version: 1.0\r\nAuthorization: Bearer bob\r\n\r\n"
        wr.write(head.encode()); 
        async with asyncio.timeout(3):
            print(await r.readuntil(b"\r\n\r\n"))
            wr.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            print(await r.readuntil(b"\r\n\r\n"))
        wr.close()

@pytest.mark.parametrize("path", ["/tasks", "/v1/card", "/status"])
async def test_401_says_how(path):
    from protolink_grpc import BasicAuth
    from a2a_stage import Stage
    agent = Stage(card(), http=HttpOptions(), authenticator=BasicAuth({"u": "p"}), grace_s=.2)
    async with playing(agent) as w:
        r = await w.line.http.get(path, headers=H)
        assert r.status_code == 401 and r.headers["www-authenticate"].startswith("Basic"), r.headers
        r = await w.line.http.post("/", headers=H, json=rpc("GetTask", {}))
        assert r.status_code == 401 and r.headers["www-authenticate"].startswith("Basic"), r.headers

async def test_401_of_a_registry_says_how():
    from protolink_grpc import BasicAuth
    async with Registry(http=HttpOptions(), authenticator=BasicAuth({"u": "p"})) as reg:
        async with httpx.AsyncClient() as http:
            r = await http.get(reg.http_url + "/agents/")
            assert r.status_code == 401 and "www-authenticate" in r.headers
