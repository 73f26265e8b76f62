"""Other systems whose packages cannot be installed beside ours: each has a virtual environment, made at its first use."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from bench.plan import print_progress
from bench.process import ROOT, WORK, Server, scratch, start

SHARED = tuple(f"{name}=={version(name)}" for name in ("grpcio", "protobuf", "pydantic", "uvloop", "psutil"))
"""Packages of which all systems have the same version, so that only the systems differ."""

REQUIREMENTS = {"pydantic-rpc": ("pydantic-rpc==0.15.2", "mcp<2", *SHARED)}
"""What pip installs for each system. pydantic-rpc 0.15.2 does not work with mcp 2."""


@asynccontextmanager
async def peer(name: str) -> AsyncIterator[Server | None]:
    """Start the server of another system. None if it cannot be installed; then a sentence says so."""
    python = await environment_of(name, REQUIREMENTS[name], WORK)
    if python is None:
        yield None
        return
    async with scratch() as directory:
        command = [str(python), "-m", "bench.peer_servers", name, "--directory", str(directory)]
        server = await start(name, command, {"PYTHONPATH": str(ROOT)})
        try:
            yield server
        finally:
            await server.stop()


async def environment_of(name: str, requirements: tuple[str, ...], parent: Path) -> Path | None:
    """Return the Python of an environment in `parent` with these packages, which is made if it is missing. None if that fails."""
    directory = parent / f"venv-{name}"
    python, installed = directory / "bin" / "python", directory / "requirements.txt"
    wanted = "\n".join(requirements)
    if installed.exists() and installed.read_text() == wanted:
        return python
    print_progress(f"installing {name} into {directory}")
    # A pip of its own would take longer to install than most of the packages.
    pip = (sys.executable, "-m", "pip", "--python", str(python))
    for command in (
        (sys.executable, "-m", "venv", "--clear", "--without-pip", str(directory)),
        (*pip, "install", "--quiet", "--disable-pip-version-check", *requirements),
    ):
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        _, errors = await process.communicate()
        if process.returncode:
            last = errors.decode(errors="replace").strip().rpartition("\n")[2]
            print_progress(f"{name} is left out, because it cannot be installed: {last}")
            return None
    installed.write_text(wanted)
    return python
