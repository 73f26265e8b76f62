import asyncio, json, logging, time
import pytest, httpx
from a2a_stage import PATIENCE_S, Stage, agent_with, by_token, card, playing
from a2a_wires import message, everything
from protolink_grpc import A2AOptions, Approvals, HttpOptions, Limits, PushOptions, Registry

@pytest.mark.parametrize("path", ["/message:send", "/v1/message:send", "/tasks/", "/", "/agents/"])
async def test_a_body_that_breaks_off_is_not_logged(path, caplog):
    reg = Registry(http=HttpOptions())
    async with playing(agent_with(authenticated=False)) as w, reg:
        url = reg.http_url if path == "/agents/" else w.url
        host, port = url.removeprefix("http://").split(":")
        with caplog.at_level(logging.WARNING):
            r, wr = await asyncio.open_connection(host, int(port))
            v = "" if "v1" in path else "A2A-Version: 1.0\r\n"
            wr.write(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{v}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{".encode())
            await wr.drain(); await asyncio.sleep(.2)
            wr.close(); await asyncio.sleep(.3)
        assert [x for x in caplog.records if x.levelno >= logging.WARNING] == []

async def test_slow_receivers_of_one_caller_do_not_keep_others_waiting():
    hits = []
    async def never(r, w):
        try: await r.read(100000); await asyncio.sleep(60)
        except (asyncio.CancelledError, ConnectionError): pass
        finally: w.close()
    async def good(r, w):
        await r.read(100000); hits.append(time.monotonic())
        w.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"); await w.drain(); w.close()
    bad_s = await asyncio.start_server(never, "127.0.0.1", 0)
    good_s = await asyncio.start_server(good, "127.0.0.1", 0)
    bp, gp = (s.sockets[0].getsockname()[1] for s in (bad_s, good_s))
    async with playing(agent_with(A2AOptions(push=PushOptions(allow=("private",), connections=4, timeout_s=4)))) as w:
        evil, nice = w.caller("jsonrpc", "evil"), w.caller("jsonrpc", "nice")
        for _ in range(8):
            await evil.task("hello", configuration={"returnImmediately": True, "taskPushNotificationConfig": {"url": f"http://127.0.0.1:{bp}/"}})
        await asyncio.sleep(.3)
        t0 = time.monotonic()
        await nice.task("hello", configuration={"taskPushNotificationConfig": {"url": f"http://127.0.0.1:{gp}/"}})
        while not hits and time.monotonic() - t0 < 15: await asyncio.sleep(.05)
        print("first delivery after", hits and hits[0] - t0)
        assert hits and hits[0] - t0 < 1.5
    bad_s.close(); good_s.close()
