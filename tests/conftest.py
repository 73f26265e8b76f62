"""Fixtures for several folders of tests: channels that are closed, stores of both kinds, agents in processes of their own."""

import asyncio
import gc
import inspect
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from itertools import count
from pathlib import Path
from textwrap import dedent
from typing import Any

import grpc.aio
import pytest
from hypothesis import settings
from plgrpc.v1 import agent_service_pb2_grpc
from warm_python import Process, start_python

from protolink_grpc import MemoryStore, SQLiteStore
from protolink_grpc.client.channel import close_channels
from protolink_grpc.logs import record_filters
from protolink_grpc.storage.port import TaskStore

if sys.dont_write_bytecode:
    # Else each worker rewrites every test anew, and each program that a test starts compiles the whole package before its first
    # word: half of what the tests cost. Out of the way, because beside the sources is where it is not wanted.
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

# A shell starts jobs in the background with SIGINT ignored, and the programs that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long one example takes says something about the machine, not about the claim.
# Enough for one run, most properties being tested for many types; `thorough` searches.
settings.register_profile("claims", deadline=None, max_examples=25)
# `make test-fast`: enough to notice a broken claim, while the code is being changed.
settings.register_profile("fast", deadline=None, max_examples=10)
# To search for rare cases: HYPOTHESIS_PROFILE=thorough make test
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "claims"))

BUILDS = ("tests/polyglot/test_conformance.py", "tests/polyglot/test_browser.py")
"""These share the builds of clients in other languages: one process runs them all."""

FOLDERS = ("polyglot", "interop", "e2e", "faults", "fuzz", "conformance", "contract", "unit")
"""Those with the longest tests first: at the end of a run, no worker is left alone with a long one."""

START_S = 30.0
"""How long a program may take to say its first line; far more than it needs on a busy machine."""


def pytest_sessionstart(session: pytest.Session) -> None:
    """Each worker begins to collect in another folder: in a clean clone, each file is then compiled by one of them, not by all."""
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    if count == 1 or session.config.args != session.config.getini("testpaths"):
        return
    files = sorted(Path(__file__).parent.glob("*/**/test_*.py"))
    first = len(files) * int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")) // count
    folders = dict.fromkeys(
        f"tests/{path.relative_to(Path(__file__).parent).parts[0]}" for path in files[first:] + files
    )
    session.config.args = list(folders)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects without the garbage collector, which would visit each collected test again and again, now and later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {f"tests/{folder}": rank for rank, folder in enumerate(FOLDERS)}
    # Workers must agree on the order, and have begun in different folders.
    items.sort(key=lambda item: (ranks.get("/".join(item.nodeid.split("/", 2)[:2]), len(ranks)), str(item.path)))
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.function):
            item.fixturenames.insert(0, "closed_channels")


@pytest.fixture
async def closed_channels() -> AsyncIterator[None]:
    """Closes the clients' channels of a test's event loop before it ends. Every asynchronous test has this fixture."""
    yield
    await close_channels()
    module = sys.modules.get("protolink_grpc.client.http_channel")  # importing it would slow down the other tests
    if module is not None:
        await module.close_http_channels()


@pytest.hookimpl(optionalhook=True)  # of xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Distributes whole files, in the order of `FOLDERS`: what the tests of a file share is made once.

    The mark `xdist_group` is of no use: pytest-xdist 3.8 ignores it with pytest 9.2.
    """
    from xdist.scheduler import LoadFileScheduling  # the plugin may be absent

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return BUILDS[0] if file in BUILDS else file

    config.option.loadscopereorder = False  # it would put the files with the most tests first
    return ByFile(config, log)


@pytest.fixture(autouse=True)
def _logs_count_anew() -> None:
    """Else a test would find its records left out, because of those that other tests of the same minute have caused."""
    for each in record_filters():
        each.reset()


@pytest.fixture
async def channel() -> AsyncIterator[Callable[[str], grpc.aio.Channel]]:
    """Opens a bare channel to a `grpc://` URL: no retries, no interpretation."""
    opened: list[grpc.aio.Channel] = []

    def open_channel(url: str) -> grpc.aio.Channel:
        # Without the local pool, channels with equal arguments would share one connection.
        options = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
        opened.append(grpc.aio.insecure_channel(url.removeprefix("grpc://"), options))
        return opened[-1]

    yield open_channel
    for each in opened:
        await each.close()


@pytest.fixture
def stub(channel: Callable[[str], grpc.aio.Channel]) -> Callable[[str], Any]:
    """The generated stub of AgentService, as a client in another language would use it."""
    return lambda url: agent_service_pb2_grpc.AgentServiceStub(channel(url))


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TaskStore:
    """One store of each kind, not open yet."""
    return MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "tasks.db")


class Program:
    """A Python program in a process of its own that says on its standard output how far it is."""

    def __init__(self, process: Process, stdin: int, stdout: int) -> None:
        self._process = process
        self._stdin, self._stdout = open(stdin, "wb", buffering=0), open(stdout, "rb")  # noqa: SIM115 -- closed by `close`

    @property
    def pid(self) -> int:
        return self._process.pid

    async def line(self) -> str:
        """Its next line."""
        async with asyncio.timeout(START_S):
            line = (await asyncio.to_thread(self._stdout.readline)).decode().strip()
        if not line:
            raise AssertionError(f"the program ended with {await self.end()} and said nothing more")
        return line

    async def rest(self) -> str:
        """All that it still says, once it has ended."""
        async with asyncio.timeout(START_S):
            return (await asyncio.to_thread(self._stdout.read)).decode()

    def say(self, line: str) -> None:
        """Put a line on its standard input."""
        self._stdin.write(f"{line}\n".encode())

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    async def end(self, within_s: float = START_S) -> int:
        """Its exit code, once it has ended."""
        return await asyncio.to_thread(self._process.wait, within_s)

    async def kill(self) -> None:
        """SIGKILL: nothing is flushed, nothing is said."""
        self.signal(signal.SIGKILL)
        await self.end()

    async def close(self) -> None:
        """Kill it if it is still running."""
        await self.kill()
        self._stdin.close()
        self._stdout.close()


@pytest.fixture
async def launch(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Program]]]:
    """Starts Python source, or a file of it, in a process of its own; what still runs at the end of the test is killed."""
    programs: list[Program] = []
    numbers = count()

    async def start(source: str | Path, *arguments: object) -> Program:
        if isinstance(source, Path):
            path = source
        else:
            path = tmp_path / f"program_{next(numbers)}.py"
            path.write_text(dedent(source))
        (theirs_in, ours_in), (ours_out, theirs_out) = os.pipe(), os.pipe()
        process = await asyncio.to_thread(
            start_python, str(path), *map(str, arguments), stdin=theirs_in, stdout=theirs_out
        )
        os.close(theirs_in)
        os.close(theirs_out)
        programs.append(Program(process, ours_in, ours_out))
        return programs[-1]

    yield start
    for program in programs:
        await program.close()
