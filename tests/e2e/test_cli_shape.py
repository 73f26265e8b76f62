"""The command line as a program: its help, its versions, its colours."""

import os
import pty
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from cli_world import COMMAND, END_S, World, environment, plgrpc

from protolink_grpc import __version__
from protolink_grpc.cli.app import build_commands, main

COMMANDS = [
    [],
    ["card"],
    ["card", "get"],
    ["send"],
    ["call"],
    ["tools"],
    ["task"],
    ["task", "get"],
    ["task", "list"],
    ["task", "cancel"],
    ["task", "pause"],
    ["task", "resume"],
    ["task", "retry"],
    ["task", "subscribe"],
    ["task", "show"],
    ["task", "create"],
    ["task", "update"],
    ["task", "start"],
    ["task", "progress"],
    ["task", "complete"],
    ["task", "fail"],
    ["task", "link"],
    ["task", "unlink"],
    ["approvals"],
    ["approvals", "list"],
    ["approvals", "show"],
    ["approvals", "approve"],
    ["approvals", "deny"],
    ["run"],
    ["run", "list"],
    ["run", "report"],
    ["run", "replay"],
    ["run", "trace"],
    ["run", "diff"],
    ["session"],
    ["session", "list"],
    ["session", "show"],
    ["session", "submit"],
    ["session", "watch"],
    ["session", "export"],
    ["session", "interrupt"],
    ["session", "promote"],
    ["session", "remove"],
    ["session", "edit"],
    ["session", "rollback"],
    ["session", "resume"],
    ["session", "delete"],
    ["session", "update"],
    ["session", "start-thread"],
    ["snapshot"],
    ["snapshot", "session"],
    ["snapshot", "thread"],
    ["snapshot", "queue"],
    ["snapshot", "tools"],
    ["snapshot", "context"],
    ["snapshot", "artifacts"],
    ["snapshot", "evidence"],
    ["state"],
    ["state", "describe"],
    ["state", "reset"],
    ["state", "compact"],
    ["agents"],
    ["agents", "list"],
    ["agents", "watch"],
    ["serve"],
    ["mcp"],
    ["registry"],
    ["conformance"],
    ["conformance", "serve"],
    ["conformance", "run"],
    ["conformance", "agentruntime"],
    ["eval"],
    ["gen"],
    ["proto"],
    ["proto", "export"],
    ["doctor"],
    ["version"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Usage:" in shown
    assert "\x1b" not in shown


def test_the_list_of_tested_commands_is_complete() -> None:
    known = {tuple(command) for command in COMMANDS}
    built = build_commands()
    assert {(name,) for name in built.commands} <= known
    for group in [command for command in COMMANDS if len(command) == 1]:
        inner = built.commands[group[0]]
        assert {(*group, name) for name in getattr(inner, "commands", {})} <= known


WITHOUT_JSON = [["mcp"], ["conformance", "serve"], ["conformance", "run"]]
"""Commands whose standard output has a format of its own."""


@pytest.mark.parametrize(
    "command", [each for each in COMMANDS if each not in WITHOUT_JSON and [each] != COMMANDS[:1]], ids=" ".join
)
def test_every_command_takes_json(command: list[str]) -> None:
    built = build_commands()
    for name in command:
        built = built.commands[name]
    if not hasattr(built, "commands"):
        assert "--json" in [name for each in built.params for name in each.opts]


@pytest.mark.parametrize(
    "group",
    [
        [],
        *(
            [each]
            for each in ("agents", "approvals", "card", "conformance", "run", "session", "snapshot", "state", "task")
        ),
    ],
)
def test_a_list_of_commands_is_not_cut_off_at_80_columns(group: list[str]) -> None:
    listed = plgrpc(*group, "--help", env={"COLUMNS": "80"}).out.partition("Commands:\n")[2]
    assert listed
    assert "..." not in listed
    assert max(map(len, listed.splitlines())) <= 80


def test_the_installed_program_calls_main() -> None:
    # Ours by its distribution: the tests install ProtoLink itself, too, whose program has the same name.
    (program,) = distribution("protolink-grpc").entry_points.select(group="console_scripts", name="plgrpc")
    assert program.load() is main


def test_the_command_has_a_long_form() -> None:
    scripts = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"plgrpc": "protolink_grpc.cli.app:main", "protolink-grpc": "protolink_grpc.cli.app:main"}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_at_80_columns_is_not_wider_and_breaks_no_word(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*command, "--help"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert max(map(len, shown)) <= 80
    assert [line for line in shown if line.endswith("-")] == []


def test_an_option_before_the_command_is_refused_with_a_hint() -> None:
    done = plgrpc("--header", "a=b", "tools", "grpc://127.0.0.1:1")
    assert done.code == 2
    assert "options of a command follow its name" in done.err


def test_a_negative_number_is_refused_with_the_way_to_pass_it() -> None:
    done = plgrpc("task", "progress", "grpc://127.0.0.1:1", "t-1", "-5")
    assert done.code == 2
    assert done.err.endswith("hint: an argument that begins with - follows --, as in: plgrpc task progress -- -1\n")
    done = plgrpc("task", "progress", "grpc://127.0.0.1:1", "t-1", "--", "-5")
    assert (done.code, done.out) == (2, "")
    assert "Input should be greater than or equal to 0" in done.err


def test_an_invalid_value_is_named_with_the_allowed_ones() -> None:
    done = plgrpc("task", "link", "grpc://127.0.0.1:1", "t-1", "likes", "t-2")
    assert done.code == 2
    assert done.err.startswith("error: Invalid value for 'KIND': 'likes' is not one of 'parent', 'blocked_by', ")


def test_an_http_address_is_refused_with_a_hint_to_the_grpc_address() -> None:
    done = plgrpc("tools", "http://127.0.0.1:8080/")
    assert done.code == 2
    assert done.err == (
        "error: http://127.0.0.1:8080/ is an HTTP address, and plgrpc uses gRPC\n"
        "hint: the card shows the gRPC address: curl http://127.0.0.1:8080/.well-known/agent-card.json\n"
    )


def test_a_certificate_file_that_does_not_exist_is_named_with_its_option() -> None:
    for option, command in (
        ("--tls-ca", ["tools", "grpc://127.0.0.1:1"]),
        ("--tls-key", ["registry", "--url", "grpcs://127.0.0.1:0", "--tls-cert", __file__]),
    ):
        done = plgrpc(*command, option, "missing.pem")
        assert done.code == 2
        assert done.err == f"error: file missing.pem not found\nhint: {option} takes a PEM file\n"


def test_a_server_without_the_service_is_named() -> None:
    with World().up() as world:
        url = world.calc.card.url
        done = plgrpc("agents", "list", registry=url)
    assert done.code == 1
    assert done.err == (
        f"error: {url} does not have this service\nhint: plgrpc doctor {url} shows the services at this address\n"
    )


def test_the_versions_are_printed() -> None:
    assert plgrpc("--version").out == f"plgrpc {__version__}\n"
    assert plgrpc("version", "-o", "json").document == {"version": __version__, "protocol_version": "1.0"}


def test_a_terminal_gets_the_same_text_in_colour() -> None:
    plain = plgrpc("doctor", "grpc://127.0.0.1:1").out
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "doctor", "grpc://127.0.0.1:1"],
        stdout=terminal,
        stderr=terminal,
        env=environment({"TERM": "xterm-256color"}),
    )
    os.close(terminal)
    shown = b""
    try:
        while chunk := os.read(screen, 4096):
            shown += chunk
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(screen)
    assert process.wait(timeout=END_S) == 3
    text = shown.decode().replace("\r\n", "\n")
    assert "\x1b[" in text
    assert re.sub(r"\x1b\[[0-9;]*m", "", text) == plain


def test_help_loads_neither_grpc_nor_rich() -> None:
    # A count of modules, not of milliseconds: it says the same on a busy machine.
    code = (
        "import sys; from protolink_grpc.cli.app import main; main(['--help']);"
        "print(sorted({'grpc', 'rich', 'google.protobuf', 'asyncio'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=END_S)
    assert done.stderr == "[]\n"
