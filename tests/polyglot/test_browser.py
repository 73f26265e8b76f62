"""The TypeScript client in a real browser: a page of another origin asks an agent over gRPC-Web and shows its events live.

Chromium is driven over its DevTools protocol, so that nothing has to be installed beside it. Where there is no Chromium, or no
Node.js to build the page, the tests are skipped and say so.
"""

import asyncio
import base64
import json
import re
import shutil
import subprocess
import sys
import threading
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from languages import LANGUAGES, Language
from programs import Programs
from websockets.asyncio.client import ClientConnection, connect

from protolink_grpc import (
    Agent,
    AgentCard,
    AgentClient,
    APIKey,
    APIKeyAuth,
    HttpOptions,
    Principal,
    Task,
    TaskProgress,
    current_run,
)
from protolink_grpc.testing.calculator import make_calculator
from protolink_grpc.testing.cases import CASES, parse_report

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "clients" / "ts"

PATIENCE_S = 30.0
"""How long a test waits for what must happen; far more than it takes."""

BUILD_S = 600

KEY = "key-of-ann"

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

FLAGS = (
    "--headless=new",
    "--remote-debugging-port=0",
    "--no-sandbox",  # it refuses to be root otherwise, as in containers
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-proxy-server",
    # It must connect to no other host.
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--window-size=900,700",
)

TYPESCRIPT = next(each for each in LANGUAGES if each.name == "ts")

pytestmark = [
    pytest.mark.timeout(2400),  # the build may have to wait for those of other languages
    pytest.mark.parametrize("language", [TYPESCRIPT], ids=["ts"], scope="session"),
]


@pytest.fixture(scope="session")
def chromium() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    return found


@pytest.fixture(scope="session")
def built(language: Language, programs: Programs) -> Path:
    """The folder of what the TypeScript client is built to, with the page."""
    why = language.missing()
    if why:
        pytest.skip(f"{language.title}: {why}")
    programs.build(language)
    command = ["npm", "run", "bundle-page"]
    done = subprocess.run(command, cwd=CLIENT, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return CLIENT / "dist"


class Files(SimpleHTTPRequestHandler):
    """Serves a folder and keeps quiet about it."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the name that the base class gives it
        pass


@pytest.fixture(scope="session")
def origin(built: Path) -> Iterator[str]:
    """Where the page is: its origin."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(built / "web"))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


class Page:
    """The one page of a browser, over the DevTools protocol."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = count(1)
        self._session = ""

    async def attach(self) -> None:
        """Take hold of the page that the browser has begun with."""
        targets = (await self.command("Target.getTargets"))["targetInfos"]
        target = next(each["targetId"] for each in targets if each["type"] == "page")
        attached = await self.command("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]

    async def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._ids)
        request = {"id": number, "method": method, "params": parameters}
        if self._session:
            request["sessionId"] = self._session
        async with asyncio.timeout(PATIENCE_S):
            await self._socket.send(json.dumps(request))
            while True:
                answer = json.loads(await self._socket.recv())
                if answer.get("id") == number:
                    break
        assert "error" not in answer, answer["error"]
        result: dict[str, Any] = answer["result"]
        return result

    async def open(self, url: str) -> None:
        await self.command("Page.navigate", url=url)
        await self.until(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")

    async def value(self, expression: str) -> Any:
        answer = await self.command("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def until(self, expression: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not await self.value(expression):
                    await asyncio.sleep(0.02)
        except TimeoutError:
            shown = await self.value("document.body.innerText")
            raise AssertionError(f"{expression} did not come true; the page says {shown!r}") from None

    async def click(self, element: str) -> None:
        await self.value(f"document.getElementById({json.dumps(element)}).click()")

    async def fill(self, element: str, text: str) -> None:
        await self.value(f"document.getElementById({json.dumps(element)}).value = {json.dumps(text)}")

    async def lines(self) -> list[str]:
        """The events that are shown, each as sequence, type and words."""
        found: list[str] = await self.value("[...document.querySelectorAll('#events li')].map(each => each.innerText)")
        return [" ".join(each.split()) for each in found]

    async def state(self) -> str:
        found: str = await self.value("document.getElementById('state').innerText")
        return found

    async def screenshot(self, path: Path) -> None:
        """For people who want to see what a test sees."""
        path.write_bytes(base64.b64decode((await self.command("Page.captureScreenshot"))["data"]))


@pytest.fixture
async def page(chromium: str, tmp_path: Path) -> AsyncIterator[Page]:
    browser = await asyncio.create_subprocess_exec(
        *(chromium, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "about:blank"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            url = await _devtools_url(browser)
        reading = asyncio.create_task(_drained(browser))
        async with connect(url, max_size=None, proxy=None) as socket:
            page = Page(socket)
            await page.attach()
            yield page
            page._session = ""
            await page.command("Browser.close")
        await asyncio.wait_for(browser.wait(), PATIENCE_S)
        await reading
    finally:
        if browser.returncode is None:
            browser.kill()
            await browser.wait()


async def _devtools_url(browser: asyncio.subprocess.Process) -> str:
    assert browser.stderr is not None
    said = b""
    while line := await browser.stderr.readline():
        said += line
        found = re.search(rb"DevTools listening on (ws://\S+)", line)
        if found is not None:
            return found[1].decode()
    raise AssertionError(f"the browser ended: {said.decode(errors='replace')}")


async def _drained(browser: asyncio.subprocess.Process) -> None:
    """Read what it says: a full pipe would stop it."""
    assert browser.stderr is not None
    while await browser.stderr.read(65536):
        pass


class Steps(Agent):
    """Tells how far it is, and takes a step when it is let: `go`."""

    def __init__(self, cors_origins: tuple[str, ...]) -> None:
        super().__init__(
            AgentCard(name="steps", description="Takes steps", url="grpc://127.0.0.1:0"),
            http=HttpOptions(cors_origins=cors_origins),
            authenticator=APIKeyAuth({KEY: Principal("ann")}),
        )
        self.go = asyncio.Event()

    async def handle_task(self, task: Task) -> Task:
        run = current_run()
        assert run is not None
        await run.emit(TaskProgress(50.0, f"half of {task.messages[-1].text}"))
        await self.go.wait()
        return task.complete("all of it")


@pytest.fixture
async def steps(origin: str) -> AsyncIterator[Steps]:
    async with Steps((origin,)) as agent:
        yield agent


async def asked(page: Page, origin: str, agent: Agent, key: str = KEY) -> None:
    """Opens the page, fills it in and sends."""
    await page.open(f"{origin}/index.html?agent={agent.http_url}")
    await page.fill("key", key)
    await page.fill("text", "the way")
    await page.click("send")


async def test_events_are_on_the_page_while_the_task_still_runs(page: Page, origin: str, steps: Steps) -> None:
    await asked(page, origin, steps)
    await page.until("document.querySelectorAll('#events li').length === 3")
    assert await page.state() == "working"
    assert (await page.lines())[1:] == ["2 task.status WORKING", "3 task.progress half of the way"]
    (running,) = (await AgentClient(url=steps.card.url, credentials=APIKey(KEY)).list_tasks()).tasks
    assert str(running.state) == "working"

    steps.go.set()
    await page.until("document.getElementById('state').className === 'good'")
    assert (await page.lines())[3:] == ["4 task.message all of it", "5 task.status COMPLETED"]
    assert await page.state() == "completed"


async def test_the_button_cancels_the_task(page: Page, origin: str, steps: Steps) -> None:
    await asked(page, origin, steps)
    await page.until("document.querySelectorAll('#events li').length === 3")
    await page.click("cancel")
    await page.until("document.getElementById('state').innerText === 'canceled'")
    assert (await page.lines())[-1].endswith("task.status CANCELED: the visitor has canceled it")
    assert await page.value("document.getElementById('cancel').disabled")


async def test_a_wrong_key_shows_the_typed_error(page: Page, origin: str, steps: Steps) -> None:
    await asked(page, origin, steps, key="key-of-nobody")
    await page.until("document.getElementById('state').className === 'bad'")
    assert (await page.state()).startswith("UNAUTHENTICATED: ")
    assert await page.lines() == []


async def test_a_page_that_cors_origins_does_not_name_is_not_let_in(page: Page, origin: str) -> None:
    async with Steps(("https://app.example.org",)) as agent:
        await asked(page, origin, agent)
        await page.until("document.getElementById('state').className === 'bad'")
        assert (await page.state()).startswith("UNAVAILABLE: ")
        client = AgentClient(url=agent.card.url, credentials=APIKey(KEY))
        assert (await client.list_tasks()).tasks == []


@pytest.mark.parametrize("protocol", ["--web", "--connect"])
def test_every_conformance_case_passes_over_http_too(built: Path, protocol: str) -> None:
    command = [sys.executable, "-m", "protolink_grpc.cli", "conformance", "run", "--"]
    done = subprocess.run(
        [*command, "node", str(built / "conformance.js"), protocol], capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    reports = {report.case: report.result for line in said.splitlines() if (report := parse_report(line))}
    # Over HTTP the hostile proxy is not on the way, and without it the agent's answers to this case do not get lost.
    assert reports == dict.fromkeys(CASES, "PASS") | {"retry-bound": "SKIP"}, said


async def test_the_example_calls_a_typed_service_over_grpc_web(built: Path) -> None:
    async with make_calculator(http="127.0.0.1:0") as calculator:
        program = await asyncio.create_subprocess_exec(
            "node", str(built / "calculator.js"), calculator.http_url, stdout=PIPE, stderr=STDOUT
        )
        output, _ = await program.communicate()
    assert (program.returncode, output.decode().splitlines()[:2]) == (0, ["20 + 22 = 42", "COMPLETED"]), output.decode()
