"""The TypeScript client @a2a-js/sdk, 1.x and 0.3, against agents of this package; typescript/cases.mjs has the calls.

Needs node, npm and a registry to install the client from, once; without them the tests are skipped and say so.
"""

import asyncio
import json
from itertools import count
from typing import Any

import pytest
from interop_stage import World, token
from node_clients import FOLDER, obstacle

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

RUN_S = 90.0
NAMES = count(1)

CASES = {
    "card",
    "send",
    "parts",
    "stream",
    "stream of an agent that has none",
    "immediate answer",
    "input required",
    "input required in a stream",
    "context",
    "other ends",
    "message instead of a task",
    "get",
    "list",
    "cancel",
    "resubscribe",
    "push",
    "extended card",
    "extension",
    "task not found",
    "task of somebody else",
    "task that has ended",
    "no push notifications",
    "media type",
    "context of another task",
    "extended card that is not there",
    "no credentials",
}

WAYS = [
    *(("v1", binding, version) for version in ("1.0", "0.3") for binding in ("GRPC", "JSONRPC", "HTTP+JSON")),
    *(("v03", binding, "0.3") for binding in ("GRPC", "JSONRPC", "HTTP+JSON")),
]


@pytest.fixture(scope="module", autouse=True)
def client(request: pytest.FixtureRequest) -> None:
    """Skips where the client cannot run, and says so even where skips are not listed."""
    why = obstacle()
    if not why:
        return
    capture = request.config.pluginmanager.get_plugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        print(f"@a2a-js/sdk is not tested: {why}")
    pytest.skip(why)


async def lines(given: dict[str, Any]) -> dict[str, str]:
    """What the program says, by case: nothing where all is well."""
    process = await asyncio.create_subprocess_exec(
        "node",
        "cases.mjs",
        json.dumps(given),
        cwd=FOLDER,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(RUN_S):
            output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, errors.decode()
    found: dict[str, str] = {}
    for line in output.decode().splitlines():
        word, _, rest = line.partition(" ")
        if word in ("ok", "failed"):
            name, _, why = rest.partition(":")
            found[name] = "" if word == "ok" else why.strip() or "failed"
    return found


@pytest.mark.parametrize(("sdk", "binding", "version"), WAYS)
async def test_every_case_of_the_typescript_client_passes(
    full: World, bare: World, speaking: World, demanding: World, sdk: str, binding: str, version: str
) -> None:
    name = f"ts-{next(NAMES)}"
    without = set() if version == "1.0" else {"list"}  # v0.3 has no such operation
    given = {
        "sdk": sdk,
        "binding": binding,
        "version": version,
        "agents": {"full": full.url, "bare": bare.url, "speaking": speaking.url, "demanding": demanding.url},
        "name": name,
        "token": token(name),
        "otherToken": token(f"{name}-other"),
        "strangerToken": token("stranger"),
        "without": sorted(without),
    }
    found = await lines(given)
    assert "\n".join(f"{case}: {why}" for case, why in found.items() if why) == ""
    assert set(found) == CASES - without
