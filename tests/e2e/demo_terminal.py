"""Demos as users run them: environment, terminal, processes, and the requests to their models."""

import contextlib
import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
from llm_servers import Asked
from warm_python import warm_executable

from protolink_grpc import LLMMessage
from protolink_grpc.llms.providers import PROVIDERS

ROOT = Path(__file__).parents[2]
KEYS = {variable for row in PROVIDERS.values() for variable in row.key_variables}
# No test calls a provider, whatever keys the machine has.
ENVIRONMENT = {**{name: os.environ[name] for name in os.environ.keys() - KEYS}, "PYTHONPATH": str(ROOT)}


def warm_demo(module: str) -> list[str]:
    """The command of a demo whose registry and agents start warm: for claims that are not about the start of processes."""
    script = str(Path(__file__).with_name("warm_demo.py"))
    return [sys.executable, "-W", "error", script, warm_executable(), module]


class Terminal:
    """A demo on a terminal of its own, and a reader of its screen."""

    def __init__(self, program: Sequence[str], directory: Path, *arguments: str) -> None:
        self.directory = directory
        self.screen = ""
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [*program, "--dir", str(directory), *arguments],
            cwd=directory,
            env=ENVIRONMENT | {"TERM": "xterm-256color", "COLUMNS": "80"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)

    def read_until(self, words: str) -> None:
        """Read on until these words are on the screen."""
        until = time.monotonic() + 90
        while words not in self.screen and self._read(until):
            pass
        assert words in self.screen, self.screen

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def end(self) -> int:
        """Read to the end; the exit code."""
        until = time.monotonic() + 90
        while self._read(until):
            pass
        return self.process.wait(timeout=30)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def _read(self, until: float) -> bool:
        if not select.select([self._master], [], [], max(0.0, until - time.monotonic()))[0]:
            return False
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # the other end is closed
            return False
        self.screen += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)


def children_in(directory: Path) -> list[psutil.Process]:
    """Living processes that keep their files in `directory`: the mesh, whatever their parent is by now."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("DEMO_DIR") == str(directory):
                found.append(process)
    return found


def is_gone(directory: Path) -> bool:
    psutil.wait_procs(children_in(directory), timeout=20)
    return not children_in(directory)


def openai_messages(asked: Asked) -> list[LLMMessage]:
    """The conversation of a request in OpenAI's format."""
    messages = []
    for each in asked.body["messages"]:
        calls = [
            {"id": call["id"], "name": call["function"]["name"], "arguments": json.loads(call["function"]["arguments"])}
            for call in each.get("tool_calls") or ()
        ]
        messages.append(
            LLMMessage(each["role"], each["content"] or "", tool_calls=calls, tool_call_id=each.get("tool_call_id"))
        )
    return messages
