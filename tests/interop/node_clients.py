"""The TypeScript clients of A2A and MCP, installed with npm."""

import fcntl
import shutil
import subprocess
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "typescript"
INSTALL_S = 180.0


@cache
def obstacle() -> str:
    """Return why the clients cannot run here; empty if they can. Installs them first if necessary."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return "node and npm are needed"
    major = (
        subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.lstrip("v").split(".")[0]
    )
    if int(major) < 20:
        return f"node 20 or newer is needed, this is {major}"
    with (FOLDER / "package.json").open() as wanted:
        fcntl.flock(wanted, fcntl.LOCK_EX)  # tests in several processes install it once
        return _install(npm, wanted.read())


def _install(npm: str, wanted: str) -> str:
    """Install the packages of a package.json if necessary. Returns the error; empty after success."""
    done = FOLDER / "node_modules" / ".installed"
    if done.exists() and done.read_text() == wanted:
        return ""
    try:
        installed = subprocess.run(
            [npm, "install", "--no-package-lock"],
            cwd=FOLDER,
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"npm did not install the clients within {INSTALL_S:g} s"
    if installed.returncode:
        return "npm cannot install the clients: " + next(iter(installed.stderr.strip().splitlines()), "no message")
    done.write_text(wanted)
    return ""
