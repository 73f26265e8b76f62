import asyncio
import pytest
from a2a_stage import PATIENCE_S, Stage, by_token, card, playing
from a2a_wires import message, everything
from protolink_grpc import A2AOptions, Approvals, HttpOptions, Limits, AgentCapabilities

@pytest.mark.parametrize("approvals", [None, Approvals()])
@pytest.mark.parametrize("verb", ["stream", "send"])
async def test_a_turn_that_waits_for_a_slot_is_not_over(verb, approvals):
    agent = Stage(card(), http=HttpOptions(), a2a=A2AOptions(), authenticator=by_token, limits=Limits(max_concurrency=1), approvals=approvals, grace_s=.2)
    async with playing(agent) as w:
        c = w.caller("jsonrpc", "bob")
        t = await c.task("ask what?")
        text, script = w.stage.script()
        busy = await c.begin(text)
        async def go():
            if verb == "stream":
                return (await c.streamed(message("done", taskId=t["id"])))[-1]["statusUpdate"]["status"]["state"]
            return (await c.task(message("done", taskId=t["id"])))["status"]["state"]
        going = asyncio.ensure_future(go())
        await asyncio.sleep(.5)
        script.ends()
        async with asyncio.timeout(5):
            assert await going == "TASK_STATE_COMPLETED"
