"""The languages with a conformance program: what each needs, and how its program is built and started.

The only such table: `make conformance` and the tests read it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

BUILD_S = 900
"""How long a build may take: the first one of Rust compiles everything that it stands on."""


@dataclass(frozen=True)
class Language:
    """One client.

    Args:
        folder: Where its conformance program is; a language without it is skipped.
        tools: Programs that must be there to build and run it.
        build: Commands, each with the folder where it runs, given a folder for what they make.
        run: The program and its arguments, given that same folder.
        skips: Cases that it cannot pass, and says why.
        example: The program that calls a typed calculator, without its argument, the URL; given the folder of `run`.
        checks: Commands that hold the client's sources to its language's formatter and linter, and run its own tests.
    """

    name: str
    title: str
    folder: str
    tools: tuple[str, ...]
    build: Callable[[Path], list[tuple[list[str], Path]]]
    run: Callable[[Path], list[str]]
    checks: tuple[tuple[str, ...], ...] = ()
    skips: tuple[str, ...] = ()
    example: Callable[[Path], list[str]] | None = None

    def missing(self) -> str:
        """Why it cannot be run here; empty where it can."""
        if not Path(ROOT, self.folder).exists():
            return f"there is no {self.folder}"
        absent = [tool for tool in self.tools if shutil.which(tool) is None]
        return f"{' and '.join(absent)} not installed" if absent else ""

    def built(self, out: Path) -> list[str]:
        """Build it, and return the command that starts it.

        Raises:
            RuntimeError: The build failed; says how.
        """
        for command, folder in self.build(out):
            _succeed(command, folder)
        return self.run(out)

    def checked(self) -> None:
        """Run its checks, once it is built. Raises RuntimeError: one failed."""
        for command in self.checks:
            _succeed(list(command), Path(ROOT, self.folder).parent)


def _succeed(command: list[str], folder: Path) -> None:
    done = subprocess.run(_gently(command), cwd=folder, capture_output=True, text=True, timeout=BUILD_S, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()[-30:]
        raise RuntimeError("\n".join([f"{' '.join(command)} failed:", *said]))


def _gently(command: list[str]) -> list[str]:
    return ["nice", "-n", "10", *command] if shutil.which("nice") else command


def _no_build(_out: Path) -> list[tuple[list[str], Path]]:
    return []


def _go(out: Path) -> list[tuple[list[str], Path]]:
    return [(["go", "build", "-o", f"{out}/", "./conformance", "./examples/calculator"], ROOT / "clients/go")]


def _typescript(_out: Path) -> list[tuple[list[str], Path]]:
    install = ["npm", "install", "--omit-lockfile-registry-resolved", "--no-audit", "--no-fund"]
    return [(install, ROOT / "clients/ts"), (["npm", "run", "build"], ROOT / "clients/ts")]


# Clippy compiles the workspace, so that the lints need no build of their own. The folder is named because the environment may
# name another.
_CARGO = ("env", "RUSTC_WORKSPACE_WRAPPER=clippy-driver", "RUSTFLAGS=-Dwarnings", "CARGO_TARGET_DIR=target", "cargo")
_CARGO_OPTIONS = ("-q", "--workspace", "--profile", "checks")


def _rust(_out: Path) -> list[tuple[list[str], Path]]:
    # With the tests, which use more features of the dependencies: otherwise `cargo test` would compile them again. Without
    # --all-targets, which would compile programs a second time, for tests that they do not have.
    build = [*_CARGO, "build", *_CARGO_OPTIONS, "--lib", "--bins", "--examples", "--tests"]
    return [(build, ROOT / "clients/rust")]


LANGUAGES = (
    Language(
        "python",
        "Python",
        "protolink_grpc/testing/conformance.py",
        (),
        _no_build,
        lambda _: [sys.executable, "-m", "protolink_grpc.testing.conformance"],
    ),
    Language(
        "go",
        "Go",
        "clients/go/conformance",
        ("go",),
        _go,
        lambda out: [str(out / "conformance")],
        (("sh", "-c", 'test -z "$(gofmt -l .)"'), ("go", "vet", "./..."), ("go", "test", "./...")),
        example=lambda out: [str(out / "calculator")],
    ),
    Language(
        "ts",
        "TypeScript",
        "clients/ts/package.json",
        ("node", "npm"),
        _typescript,
        lambda _: ["node", str(ROOT / "clients/ts/dist/conformance.js")],
        (("npm", "run", "lint"), ("npm", "run", "unit")),
        example=lambda _: ["node", str(ROOT / "clients/ts/dist/calculator.js")],
    ),
    Language(
        "java",
        "Java",
        "clients/java/pom.xml",
        ("java", "mvn"),
        lambda _: [(["mvn", "-q", "-ntp", "-f", "clients/java/pom.xml", "package", "-DskipTests"], ROOT)],
        lambda _: [str(ROOT / "clients/java/conformance.sh")],
        (("mvn", "-q", "-ntp", "package"),),
        example=lambda _: [str(ROOT / "clients/java/calculator.sh")],
    ),
    Language(
        "rust",
        "Rust",
        "clients/rust/Cargo.toml",
        ("cargo",),
        _rust,
        lambda _: [str(ROOT / "clients/rust/target/checks/conformance")],
        (("cargo", "fmt", "--all", "--check"), (*_CARGO, "test", *_CARGO_OPTIONS)),
        example=lambda _: [str(ROOT / "clients/rust/target/checks/examples/calculator")],
    ),
    Language(
        "betterproto",
        "Python dataclasses",
        "tests/polyglot/dataclass_conformance.py",
        (),
        _no_build,
        lambda _: [sys.executable, str(ROOT / "tests/polyglot/dataclass_conformance.py")],
        skips=("references", "cancel-in-pause", "vectors"),
    ),
)
"""In the order of the table."""


def judged(command: list[str]) -> list[str]:
    """The command that runs a program's command through the judge."""
    return [sys.executable, "-m", "protolink_grpc.cli", "conformance", "run", "--", *command]


def work_folder() -> "tempfile.TemporaryDirectory[str]":
    """A folder for what a build makes outside of the checkout."""
    return tempfile.TemporaryDirectory(prefix="plgrpc-conformance-", ignore_cleanup_errors=os.name == "nt")
