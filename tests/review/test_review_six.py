import asyncio, json, logging, time
import pytest, httpx
from a2a_stage import PATIENCE_S, Stage, agent_with, by_token, card, playing, push
from a2a_wires import message, everything, Refused, V1_NAMES
from a2a_wires_v03 import *
from protolink_grpc import A2AOptions, Agent, HttpOptions, Limits, PushOptions
H = {"a2a-version": "1.0"}
ODD = [{"a2a": 5}, {"a2a": {"extensions": 5}}, 5, "x", [1], {"extensions": 5}, {"extensions": [5]}, {"reference_task_ids": {"a": 1}}, {"message_id": 5}, {"message_id": {}}, {"filename": 5}, {"media_type": 5}, {"value": 1}, {"url": 1}, {"description": 4}, {"raw": 5}, {"kind": 7}, {"type": 9}]

async def test_odd_marks(caplog):
    async with playing(agent_with(authenticated=False)) as w:
        bad = []
        for odd in ODD:
            for where in ("message", "part", "request", "data"):
                for text in ("ask what", "echo x", "talk"):
                    m = message(text)
                    params = {"message": m}
                    if where == "message": m["metadata"] = {"a2a": odd, "a2a_v1": odd, "protolink": odd}
                    if where == "part": m["parts"] += [{"text": "a", "metadata": {"a2a": odd, "a2a_v1": odd, "protolink": odd}}, {"raw": "AAAA", "metadata": {"a2a": odd}, "mediaType": "image/png"}, {"data": {"x": 1}, "metadata": {"a2a": odd, "data_part_compat": odd}}]
                    if where == "data": m["parts"] += [{"data": odd}, {"data": odd, "mediaType": "application/vnd.protolink.part+json"}, {"data": {"type": "tool_output", "content": odd}, "mediaType": "application/vnd.protolink.part+json"}]
                    if where == "request": params["metadata"] = {"a2a": odd, "protolink": odd}
                    r = await w.line.http.post("/message:send", json=params, headers=H)
                    if r.status_code >= 500: bad.append((where, odd, "send", r.text[:200]))
                    if r.status_code != 200: continue
                    t = r.json()["task"]["id"]
                    if text.startswith("ask"):
                        r = await w.line.http.post("/message:send", json={"message": {**m, "taskId": t}}, headers=H)
                        if r.status_code >= 500: bad.append((where, odd, "again", r.text[:200]))
                    for b in ("grpc", "jsonrpc", "rest", "grpc-0.3", "jsonrpc-0.3", "rest-0.3"):
                        try: await w.caller(b, "-").get(t)
                        except (TypeError, KeyError, AssertionError): pass
                        except Refused as e:
                            bad.append((where, odd, b, str(e)[:200]))
        for x in bad: print(x)
        for rec in caplog.records:
            if rec.exc_info: print(rec.getMessage(), repr(rec.exc_info[1]))
        assert not bad
