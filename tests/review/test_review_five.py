import asyncio, json, logging, time
import pytest, httpx
from a2a_stage import PATIENCE_S, Stage, agent_with, by_token, card, playing
from a2a_wires import message, everything
from protolink_grpc import A2AOptions, Agent, Approvals, HttpOptions, Limits, PushOptions, Registry, RateLimit, Artifact, Part, Task
H = {"a2a-version": "1.0"}
def rpc(method, params, call_id=1):
    return {"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}
def auth(n): return H | {"authorization": f"Bearer {n}"}

async def test_stop_with_open_streams_of_every_kind_is_quick():
    import websockets
    agent = agent_with()
    agent.grace_s = 3.0
    t = None
    async with playing(agent) as w:
        c = w.caller("jsonrpc", "bob")
        text, script = w.stage.script()
        task = await c.begin(text)
        host, port = w.url.removeprefix("http://").split(":")
        rs = []
        for _ in range(3):
            r, wr = await asyncio.open_connection(host, int(port))
            wr.write(f"GET /tasks/{task['id']}:subscribe HTTP/1.1\r\nHost: localhost\r\nA2A-Version: 1.0\r\nAuthorization: Bearer bob\r\n\r\n".encode())
            await r.readuntil(b"\n\n"); rs.append((r, wr))
        script.ends()
        t = time.monotonic()
    took = time.monotonic() - t
    print("stop took", took)
    for r, wr in rs: wr.close()
    assert took < 3.0

class Many(Agent):
    async def handle_task_streaming(self, task):
        for i in range(3000):
            yield Artifact(parts=[Part("text", "x" * 50)], name=f"n{i}")
        task.complete("done")

async def test_age_of_a_task():
    agent = Many(card(), http=HttpOptions(), a2a=A2AOptions(push=PushOptions(allow=("private",))), grace_s=.2)
    async with playing(agent) as w:
        c = w.caller("jsonrpc", "-")
        t0 = time.process_time()
        evs = await c.streamed("go")
        print("stream 3000:", time.process_time() - t0, len(evs))
        tid = evs[0]["task"]["id"]
        for n in (1, 2):
            t0 = time.process_time(); await c.get(tid); print("get", time.process_time() - t0)
        t0 = time.process_time(); await c.listed(); print("list", time.process_time() - t0)
        t0 = time.process_time(); await c.listed(historyLength=1); print("list with history", time.process_time() - t0)
        # v0.3 webhook: whole task per piece
        hits = []
        async def good(r, wr):
            data = b""
            while True:
                d = await r.read(1 << 20)
                if not d: break
                data += d
                if b"\r\n\r\n" in data:
                    head, _, body = data.partition(b"\r\n\r\n")
                    n = int([l for l in head.lower().split(b"\r\n") if l.startswith(b"content-length")][0].split(b":")[1])
                    if len(body) >= n: break
            hits.append(len(data)); wr.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"); await wr.drain(); wr.close()
        s = await asyncio.start_server(good, "127.0.0.1", 0)
        port = s.sockets[0].getsockname()[1]
        v03 = w.caller("jsonrpc-0.3", "-")
        t0 = time.process_time(); w0 = time.monotonic()
        r = await w.line.http.post("/", json=rpc("message/send", {"message": {"kind": "message", "messageId": "z", "role": "user", "parts": [{"kind": "text", "text": "go"}]}, "configuration": {"blocking": True, "pushNotificationConfig": {"url": f"http://127.0.0.1:{port}/"}}}), timeout=60)
        while True:
            n = len(hits); await asyncio.sleep(1.5)
            if len(hits) == n: break
        print("v03 push:", len(hits), "posts", sum(hits), "bytes cpu", time.process_time() - t0, "wall", time.monotonic() - w0)
        s.close()

async def test_rate_limit_counts_malformed_calls():
    agent = Stage(card(), http=HttpOptions(), authenticator=by_token, rate_limit=RateLimit(1, 3), grace_s=.2)
    async with playing(agent) as w:
        codes = set()
        for _ in range(10):
            r = await w.line.http.post("/", headers=auth("x"), json=rpc("Nothing", {}))
            codes.add(r.json()["error"]["code"])
        print(codes)
        assert codes != {-32601}
