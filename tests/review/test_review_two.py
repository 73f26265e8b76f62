import asyncio, json, logging, time, gc
import httpx, pytest
from a2a_stage import PATIENCE_S, Stage, World, agent_with, by_token, card, playing, push
from a2a_wires import Refused, message, Json, everything
from protolink_grpc import (A2AOptions, Agent, AccessRules, Approvals, CapabilityPolicy, HttpOptions, Limits, Principal, PushOptions, Registry, TLSConfig, ServerOptions)
H = {"a2a-version": "1.0"}
def rpc(method, params, call_id=1):
    return {"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}
def auth(n): return H | {"authorization": f"Bearer {n}"}


async def test_h2c_with_a_body_and_a_pipeline():
    from protolink_grpc import Agent
    async with playing(agent_with()) as w:
        host, port = w.url.removeprefix("http://").split(":")
        for cuts in ([], [40], [170], [200], [260], [300]):
            r, wr = await asyncio.open_connection(host, int(port))
            body = json.dumps(rpc("GetTask", {"id": "A"})).encode()
            first = (b"POST / HTTP/1.1\r\nHost: localhost\r\nA2A-Version: 1.0\r\nAuthorization: Bearer bob\r\nContent-Type: application/json\r\n"
                b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nContent-Length: %d\r\n\r\n" % len(body)) + body
            second = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
            data = first + second
            last = 0
            for c in [*cuts, len(data)]:
                wr.write(data[last:c]); await wr.drain(); last = c
                await asyncio.sleep(0.02)
            wr.write(b"GET /tasks HTTP/1.1\r\nHost: localhost\r\n\r\n")
            got = b""
            try:
                async with asyncio.timeout(3):
                    while got.count(b"HTTP/1.1") < 3:
                        d = await r.read(65536)
                        if not d: break
                        got += d
            except TimeoutError: pass
            assert b"task A not found" in got and b'"ready"' in got and got.count(b"HTTP/1.1 ") == 3, (cuts, got)
            wr.close()

async def test_list_survives_what_is_forgotten_meanwhile():
    async with playing(agent_with()) as w:
        c = w.caller("jsonrpc", "bob")
        for _ in range(3): await c.task("hello")
        service = w.agent._service
        inner, n = service.store.find, 0
        find = service.find
        async def forgetful(query):
            page = await find(query)
            gone = page.heads[0].task_id
            head = service.store.head
            async def without(task_id): return None if task_id == gone else await head(task_id)
            service.store.head = without
            return page
        service.find = forgetful
        out = await c.listed(includeArtifacts=True)
        assert len(out["tasks"]) == 2

async def test_only_the_http_port_with_client_certificates(tmp_path):
    from protolink_grpc.agent.edges import reach_of
    from protolink_grpc import MutualTLS
    tls = TLSConfig("a", "b", "c", require_client_cert=True)
    reach = reach_of(ServerOptions(), HttpOptions(tls=tls), True, None)
    assert isinstance(reach.authenticate, MutualTLS)

async def test_websocket_of_a_page_that_may_call_from_anywhere():
    import websockets
    agent = agent_with(http=HttpOptions(cors_origins=("*",)))
    async with playing(agent) as w:
        async with websockets.connect(w.url.replace("http", "ws") + "/", origin="https://x.example", additional_headers={"authorization": "Bearer bob"}) as s:
            await s.send(json.dumps({"id": "1", "method": "GET", "path": "/.well-known/agent.json"}))
            assert json.loads(await s.recv())["ok"]

async def test_websocket_of_a_page_of_ours():
    import websockets
    agent = agent_with(http=HttpOptions(public_url="http://agents.example/"))
    async with playing(agent) as w:
        host, port = w.agent._edges._gateway._server.url.removeprefix("http://").split(":")
        async with websockets.connect("ws://agents.example/", host=host, port=int(port), origin="http://agents.example", additional_headers={"authorization": "Bearer bob"}, proxy=None) as s:
            await s.send(json.dumps({"id": "1", "method": "GET", "path": "/.well-known/agent.json"}))
            assert json.loads(await s.recv())["ok"]

async def test_a_blocking_send_that_hangs_up_leaves_no_waiter():
    async with playing(agent_with()) as w:
        text, script = w.stage.script()
        before = len(asyncio.all_tasks())
        host, port = w.url.removeprefix("http://").split(":")
        body = json.dumps(rpc("SendMessage", {"message": message(text)})).encode()
        for _ in range(1):
            r, wr = await asyncio.open_connection(host, int(port))
            wr.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nA2A-Version: 1.0\r\nAuthorization: Bearer bob\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await wr.drain(); await asyncio.sleep(.3)
            mid = len(asyncio.all_tasks())
            wr.close(); await asyncio.sleep(.5)
        state = w.agent._edges._gateway._server._connections
        print(before, mid, len(asyncio.all_tasks()), len(state.tasks))
        left = len(state.tasks)
        script.ends()
        assert left == 0

@pytest.mark.parametrize("binding", ["grpc", "jsonrpc", "rest"])
async def test_who_asks_for_an_approval_by_filter_finds_it(binding):
    agent = Agent(card(), policy=CapabilityPolicy({"booking.write": {"effect": "require_approval"}}), approvals=Approvals(), authenticator=by_token, http=HttpOptions(), grace_s=.2)
    @agent.tool(capabilities=["booking.write"])
    def book(nights: int) -> str:
        "Book"
        return "booked"
    async with playing(agent) as w:
        c = w.caller(binding)
        call = {"tool_name": "book", "args": {"nights": 1}, "call_id": "c1"}
        t = await c.task(message(parts=[{"data": {"type": "tool_call", "content": call}, "mediaType": "application/vnd.protolink.part+json"}]))
        assert t["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        found = await c.listed(status="TASK_STATE_WORKING")
        assert [x["status"]["state"] for x in found["tasks"]] in ([], ["TASK_STATE_WORKING"])

async def test_a_broken_question_does_not_end_a_send(caplog):
    agent = agent_with(approvals=Approvals())
    async with playing(agent) as w:
        text, script = w.stage.script()
        ops = w.agent._edges._operations
        async def broken(task_id, owner):
            raise RuntimeError("store away")
        ops._question = broken
        c = w.caller("jsonrpc", "bob")
        sending = asyncio.ensure_future(c.task(text))
        await asyncio.sleep(.5)
        assert not sending.done() or sending.exception(), sending.result()
        script.ends()
        await sending
