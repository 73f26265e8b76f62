"""Python programs that start fast: a process that has imported this package and run a task forks for each of them.

Each is a process of its own, with its own input, output, directory and environment, but begins without the second that the imports
take. It ends without the teardown of the interpreter, which would copy and free all that was imported: threads are joined and
handlers of `atexit` run as usual, what is then still alive is left to the system. Only on Linux; elsewhere programs start and end
as usual. What a program imports and compiles at its start, and how long that takes, is no claim of a test that starts it like this.
"""

import asyncio
import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import random
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import types
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, Protocol

NUMBER = struct.Struct("!q")
MAX_REQUEST = 1 << 20


class Process(Protocol):
    """What `subprocess.Popen` and a forked program have in common."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...


def start_python(
    *arguments: str,
    stdin: int,
    stdout: int,
    stderr: int = 2,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    strict: bool = False,
    imports: Sequence[str] = (),
) -> Process:
    """Start `python *arguments`: the path of a program or `-m` and a module, and its arguments.

    Args:
        stdin, stdout, stderr: File descriptors, which stay open here; not those of a terminal.
        cwd: Its working directory; that of this process by default.
        env: Its whole environment; that of this process by default.
        strict: Warnings are errors, as with `-W error`.
        imports: Modules of other packages that the program uses: they are imported once for all such programs.
    """
    if sys.platform != "linux":
        flags = ["-W", "error"] if strict else []
        command = [sys.executable, *flags, *arguments]
        return subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=env)
    request = {
        "arguments": arguments,
        "cwd": str(cwd or Path.cwd()),
        "env": dict(env or os.environ),
        "strict": strict,
        "imports": list(imports),
    }
    return _warm().start(request, (stdin, stdout, stderr))


@dataclass(frozen=True)
class Ended:
    """What a program left behind."""

    code: int
    out: str
    err: str


def warm_executable(*imports: str) -> str:
    """Return the path of a program that is called like Python, and starts a warm one: for code that starts programs itself.

    What it starts ends with it, and it ends with what it has started; it passes on SIGTERM and SIGINT.

    Args:
        imports: As for `start_python`.
    """
    return sys.executable if sys.platform != "linux" else _warm().executable(*imports)


def run_python(*arguments: str, stdin: str = "", within_s: float = 60.0, **options: Any) -> Ended:
    """Run `python *arguments` to its end, with a text as its standard input; see `start_python` for the options."""
    with TemporaryFile("w+") as given, TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        given.write(stdin)
        given.seek(0)
        files = {"stdin": given.fileno(), "stdout": out.fileno(), "stderr": err.fileno()}
        process = start_python(*arguments, **files, **options)
        try:
            code = process.wait(within_s)
        finally:
            process.send_signal(signal.SIGKILL)
        out.seek(0)
        err.seek(0)
        return Ended(code, out.read(), err.read())


class _Forked:
    """A forked program. Its keeper sends its process id and, when it has ended, its exit code."""

    def __init__(self, keeper: socket.socket) -> None:
        self.pid = _receive(keeper)
        self._code: int | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._watch, args=(keeper,), daemon=True).start()

    def _watch(self, keeper: socket.socket) -> None:
        with keeper:
            self._code = _receive(keeper)
        self._ended.set()

    def poll(self) -> int | None:
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout) or self._code is None:
            raise subprocess.TimeoutExpired(f"the program {self.pid}", timeout or 0)
        return self._code

    def send_signal(self, sig: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self._code is None:
                os.kill(self.pid, sig)


class _Warm:
    """The process that forks."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        self._lock = threading.Lock()
        self._folder = TemporaryDirectory(prefix="warm-python-")
        self._address = f"{self._folder.name}/socket"
        with theirs, socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self._address)
            listener.listen(64)
            descriptors = [theirs.fileno(), listener.fileno()]
            command = [sys.executable, __file__, *map(str, descriptors)]
            null = subprocess.DEVNULL
            self._process = subprocess.Popen(command, pass_fds=descriptors, stdin=null, stdout=null)
        atexit.register(self._close)

    def start(self, request: Mapping[str, Any], descriptors: tuple[int, int, int]) -> _Forked:
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            socket.send_fds(self._control, [json.dumps(request).encode()], [*descriptors, theirs.fileno()])
            _receive(self._control)  # otherwise two requests could be read as one
        return _Forked(ours)

    def executable(self, *imports: str) -> str:
        path = Path(self._folder.name, "with " + " ".join(imports), Path(sys.executable).name)
        if not path.exists():
            path.parent.mkdir()
            given = {"python": sys.executable, "address": self._address, "format": NUMBER.format, "imports": imports}
            path.write_text(EXECUTABLE.format(**given))
            path.chmod(0o700)
        return str(path)

    def _close(self) -> None:
        self._control.close()
        self._process.wait()
        self._folder.cleanup()


EXECUTABLE = """#!{python} -IS
import json, os, signal, socket, struct, sys

with socket.socket(socket.AF_UNIX) as warm:
    warm.connect({address!r})
    request = {{"arguments": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}}
    request |= {{"strict": False, "imports": {imports!r}}}
    socket.send_fds(warm, [json.dumps(request).encode()], [0, 1, 2])
    (pid,) = struct.unpack({format!r}, warm.recv(8))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: os.kill(pid, number))
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    (code,) = struct.unpack({format!r}, warm.recv(8))
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""
"""The program of `warm_executable`: it imports little, and waits for what it has started."""

_warm = cache(_Warm)


def _receive(connection: socket.socket) -> int:
    data = connection.recv(NUMBER.size)
    if not data:
        raise RuntimeError("the process that starts programs has ended")
    return int(NUMBER.unpack(data)[0])


# -- in the process that forks ---------------------------------------------------------------------------------------------


def _import_everything() -> None:
    import protolink_grpc

    for found in pkgutil.walk_packages(protolink_grpc.__path__, "protolink_grpc."):
        # What needs an extra takes long, and few programs use it.
        if "pydantic_ai" not in found.name and not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    for name in protolink_grpc.__all__:
        getattr(protolink_grpc, name)
    importlib.import_module("protolink_grpc.cli.app").build_commands()


async def _run_a_task(folder: str) -> None:
    """Compile what the first task of a process compiles: codecs, and the signatures of public methods."""
    from protolink_grpc import Agent, AgentClient, Message, SQLiteStore, Task, TaskState
    from protolink_grpc.flows import Pipeline, Step, ToolStep

    tools = Agent("tools", url="runtime://tools", store=SQLiteStore(Path(folder, "tools.db")))

    @tools.tool
    def add(a: int, b: int) -> int:
        return a + b

    async def finish(task: Task) -> None:
        task.complete("done")

    flow = Pipeline([ToolStep(tools.card.url, "add", {"a": 20, "b": 22}), Step(finish)])
    agent = Agent("flow", url="runtime://flow", store=SQLiteStore(Path(folder, "flow.db")), flow=flow)
    async with tools, agent:
        client = AgentClient(url=agent.card.url)
        task = await client.send_task(None, Task.create(Message.user("go")))
        assert task.state is TaskState.COMPLETED, task
        assert [event.to_dict() async for event in client.subscribe(task.id)]


def _serve(control: socket.socket, listener: socket.socket) -> list[str]:
    """Fork for each request until the tests end. Returns only in the programs, with their arguments."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the keepers leave no zombies
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        asked = control in select.select([control, listener], [], [])[0]
        connection = control if asked else listener.accept()[0]
        data, descriptors, _, _ = socket.recv_fds(connection, MAX_REQUEST, 4)
        if asked and not data:
            os._exit(0)
        if not asked:
            descriptors.append(connection.detach())
        if data and _is_forked(json.loads(data)):
            control.close()
            listener.close()
            return _keep(json.loads(data), descriptors)
        for each in descriptors:
            os.close(each)
        if asked:
            control.sendall(NUMBER.pack(0))


def _is_forked(request: dict[str, Any]) -> bool:
    """Fork. Returns true in the new process."""
    for name in request["imports"]:
        importlib.import_module(name)
    return os.fork() == 0


def _keep(request: dict[str, Any], descriptors: list[int]) -> list[str]:
    """Fork the program and report how it ends. Returns only in the program."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        return _become(request, descriptors)
    for each in descriptors[:3]:
        os.close(each)
    tests = socket.socket(fileno=descriptors[3])
    tests.sendall(NUMBER.pack(pid))
    threading.Thread(target=_kill_without, args=(tests, pid), daemon=True).start()
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(OSError):
        tests.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _kill_without(tests: socket.socket, pid: int) -> None:
    """No program outlives the tests that have started it."""
    if not tests.recv(1):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _become(request: dict[str, Any], descriptors: list[int]) -> list[str]:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for target, each in enumerate(descriptors[:3]):
        os.dup2(each, target)
    for each in descriptors:
        os.close(each)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    random.seed()
    if request["strict"]:
        warnings.simplefilter("error")
    return list(request["arguments"])


_exit_code: int | None = None
"""That of the program, once it is known."""


def _leave() -> None:
    """The last handler of `atexit`: it was registered before all others."""
    if _exit_code is None:
        return
    gc.collect()  # warns of what was not closed, as the teardown would
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_exit_code)


def _run(arguments: list[str]) -> None:
    """As the interpreter itself would."""
    global _exit_code
    try:
        _execute(arguments)
        _exit_code = 0
    except SystemExit as error:
        _exit_code = error.code if isinstance(error.code, int) else int(error.code is not None)
        raise
    except Exception:
        _exit_code = 1
        raise


def _execute(arguments: list[str]) -> None:
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = str(Path.cwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = arguments
    sys.path[0] = str(Path(arguments[0]).parent)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = arguments[0]
    exec(compile(Path(arguments[0]).read_bytes(), arguments[0], "exec"), main.__dict__)


if __name__ == "__main__":
    atexit.register(_leave)
    _import_everything()
    with TemporaryDirectory() as folder:
        asyncio.run(_run_a_task(folder))
    gc.collect()
    gc.freeze()
    _run(_serve(*[socket.socket(fileno=int(each)) for each in sys.argv[1:]]))
