"""The TypeScript client @a2a-js/sdk, of its 1.x and its 0.3 line, against our server: typescript/cases.mjs says what it does.

Needs node, npm and a registry to install the client from, once; without them the tests are skipped and say so.
"""

import asyncio
import fcntl
import json
import shutil
import subprocess
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from interop_stage import World, token

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

HERE = Path(__file__).parent / "typescript"
INSTALL_S, RUN_S = 180.0, 90.0
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


@cache
def obstacle() -> str:
    """Why the client cannot run here; empty where it can. Installs it where it is not there."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return "node and npm are needed"
    major = (
        subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.lstrip("v").split(".")[0]
    )
    if int(major) < 20:
        return f"node 20 or newer is needed, this is {major}"
    with (HERE / "package.json").open() as wanted:
        fcntl.flock(wanted, fcntl.LOCK_EX)  # tests in several processes install it once
        return install(npm, wanted.read())


def install(npm: str, wanted: str) -> str:
    """Install what that package.json wants, where it is not there. Returns what is wrong; nothing where all is well."""
    done = HERE / "node_modules" / ".installed"
    if done.exists() and done.read_text() == wanted:
        return ""
    try:
        installed = subprocess.run(
            [npm, "install", "--no-package-lock"],
            cwd=HERE,
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"npm did not install the client within {INSTALL_S:g} s"
    if installed.returncode:
        return "npm cannot install the client: " + next(iter(installed.stderr.strip().splitlines()), "it says nothing")
    done.write_text(wanted)
    return ""


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
        "node", "cases.mjs", json.dumps(given), cwd=HERE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
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
