"""The stubs of protolink_grpc/testing/calculator.proto in the clients' folders: made by `plgrpc gen`, as users make theirs.

After a change of the tools, export the proto (`plgrpc proto export ... -o protolink_grpc/testing/calculator.proto`), and run
`PYTHONPATH=tests python tests/polyglot/calculator_stubs.py`. It writes the stubs of every language whose plugins are on the PATH or
where `make gen` has put them.
"""

import os
import subprocess
import sys
from pathlib import Path

from stub_plugins import plugin_path

ROOT = Path(__file__).resolve().parents[2]
PROTO = ROOT / "protolink_grpc/testing/calculator.proto"

FOLDERS = {
    "go": ROOT / "clients/go/examples/calculatorv1",
    "ts": ROOT / "clients/ts/example/gen",
    "java": ROOT / "clients/java/programs/src/main/java",
    "rust": ROOT / "clients/rust/examples/gen",
    "betterproto": ROOT / "tests/polyglot/calculator_dataclasses",
}
"""Where the stubs of each language are."""


class MissingToolError(Exception):
    """A plugin is not installed."""


def generate(language: str, out: Path) -> None:
    """Write a language's stubs into a folder. Raises MissingToolError without its plugins."""
    command = [
        sys.executable,
        "-m",
        "protolink_grpc.cli",
        "gen",
        "--lang",
        language,
        "--proto",
        str(PROTO),
        "--out",
        str(out),
    ]
    done = subprocess.run(
        command, env={**os.environ, "PATH": plugin_path()}, capture_output=True, text=True, check=False
    )
    if "is not on the PATH" in done.stderr:
        raise MissingToolError(done.stderr.strip())
    if done.returncode:
        raise RuntimeError(done.stderr)


def main(*languages: str) -> int:
    for language in languages or FOLDERS:
        try:
            generate(language, FOLDERS[language])
        except MissingToolError as error:
            print(f"{language} skipped: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
