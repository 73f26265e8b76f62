"""`serve`, `registry`, `agents ...`: servers as processes, found by name, stopped by signals."""

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from cli_world import END_S, Running, first_document, plgrpc, running

from protolink_grpc import Agent, AgentCard, InstanceState, InstanceStatus, Registry, RegistryClient

MODULE = """
    from protolink_grpc import Agent, AgentCard

    agent = Agent(name="hotel")

    @agent.tool
    def book(nights: int) -> str:
        '''Book a room.'''
        return f"{nights} nights"

    class Weather(Agent):
        def __init__(self):
            super().__init__(AgentCard(name="weather", description="knows", url="grpc://127.0.0.1:0"))

    class Picky(Agent):
        def __init__(self, city):
            super().__init__(name=city)

    class Other:
        pass

    def make():
        return Weather()

    def broken():
        raise LookupError("no key")

    number = 5
"""


def book(nights: int) -> int:
    """Book a room."""
    return nights


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with a module of agents, one that cannot be imported, and one that starts its agent by itself."""
    (tmp_path / "mesh.py").write_text(dedent(MODULE))
    (tmp_path / "sick.py").write_text("import not_installed_anywhere\n")
    (tmp_path / "eager.py").write_text("from mesh import agent\nagent.start(background=True)\n")
    return tmp_path


@pytest.fixture
def registry() -> Iterator[str]:
    server = Registry()
    server.start(background=True)
    yield server.url
    server.stop()


def stopped(process: Running, number: signal.Signals) -> tuple[int, str]:
    """Exit code and standard error of a server after a signal."""
    process.send_signal(number)
    _, err = process.communicate(timeout=END_S)
    return process.returncode, err


def test_an_agent_of_the_working_directory_serves_registers_and_drains_on_sigterm(folder: Path, registry: str) -> None:
    with running("serve", "mesh:agent", "-o", "json", registry=registry, cwd=folder) as process:
        told = first_document(process)
        assert told["name"] == "hotel"
        assert plgrpc("call", "hotel", "book", "nights=3", registry=registry).out == "3 nights\n"
        assert plgrpc("card", "get", told["url"], "-o", "json").document["url"] == told["url"]
        code, err = stopped(process, signal.SIGTERM)
    assert code == 0
    assert "agent hotel listens on" in err
    assert "Traceback" not in err
    listed = plgrpc("agents", "list", "-o", "json", registry=registry)
    assert listed.document == {"agents": []}


def test_an_agent_listens_at_listen_and_registers_url(folder: Path, registry: str) -> None:
    places = ("--url", "grpc://localhost:0", "--listen", "0.0.0.0:0")
    with running("serve", "mesh:agent", *places, "-o", "json", registry=registry, cwd=folder) as process:
        url = first_document(process)["url"]
        assert url.startswith("grpc://localhost:")
        assert url in plgrpc("agents", "list", registry=registry).out
        assert plgrpc("call", "hotel", "book", "nights=3", registry=registry).out == "3 nights\n"
        assert stopped(process, signal.SIGTERM)[0] == 0


def test_the_list_of_agents_shows_state_and_load_on_80_columns(registry: str) -> None:
    client = RegistryClient(registry).sync
    card = AgentCard(name="hotel", description="d", url="grpc://127.0.0.1:50051", tags=["vacation"])
    client.register(card, instance_id="i-1")
    client.heartbeat(card.url, InstanceStatus(InstanceState.DRAINING, running=2, queued=5))
    heads, row = plgrpc("agents", "list", registry=registry).out.splitlines()
    assert heads.split() == ["NAME", "URL", "STATE", "RUNS", "ROLE", "TAGS", "SKILLS"]
    assert row.split() == ["hotel", card.url, "draining", "2+5", "worker", "vacation"]
    assert max(len(heads), len(row)) <= 80
    (shown,) = plgrpc("agents", "list", "-o", "json", registry=registry).document["agents"]
    assert (shown["instance_id"], shown["state"], shown["running"], shown["queued"]) == ("i-1", "draining", 2, 5)


def test_an_address_that_cannot_be_called_is_not_registered(folder: Path, registry: str) -> None:
    done = plgrpc("serve", "mesh:agent", "--url", "grpc://0.0.0.0:0", registry=registry, cwd=folder)
    assert done.code == 1
    assert "is not reachable from other machines" in done.err


def test_certificates_for_a_listen_address_without_tls_are_refused(folder: Path) -> None:
    options = ("--listen", "grpc://0.0.0.0:0", "--tls-cert", "c", "--tls-key", "k")
    done = plgrpc("serve", "mesh:agent", *options, cwd=folder)
    assert (done.code, "grpc://0.0.0.0:0 does not use TLS" in done.err) == (2, True)


@pytest.mark.parametrize("attribute", ["Weather", "make"])
def test_serve_takes_a_class_or_a_factory_and_stops_on_sigint(folder: Path, attribute: str) -> None:
    with running("serve", f"mesh:{attribute}", "-o", "json", cwd=folder) as process:
        assert first_document(process)["name"] == "weather"
        assert stopped(process, signal.SIGINT)[0] == 0


def test_a_store_keeps_the_tasks_over_a_restart(folder: Path) -> None:
    task_id = ""
    for _ in range(2):
        with running("serve", "mesh:agent", "--store", "tasks.db", "-o", "json", cwd=folder) as process:
            url = first_document(process)["url"]
            if not task_id:
                task_id = plgrpc("send", url, "hello", "-o", "json").document["id"]
            assert plgrpc("task", "get", url, task_id, "-o", "json").document["id"] == task_id
            assert stopped(process, signal.SIGTERM)[0] == 0


def test_a_registry_keeps_its_agents_in_a_file(tmp_path: Path) -> None:
    path = str(tmp_path / "registry.db")
    with running("registry", "--url", "grpc://127.0.0.1:0", "--path", path, "-o", "json") as process:
        url = first_document(process)["url"]
        agent = Agent(AgentCard(name="hotel", description="books", url="grpc://127.0.0.1:0"), registry=url)
        agent.start(background=True)
        assert "hotel" in plgrpc("agents", "list", registry=url).out
        process.kill()
        process.wait()
    try:
        with running("registry", "--url", url, "--path", path, "-o", "json") as process:
            assert first_document(process) == {"url": url}
            assert "hotel" in plgrpc("agents", "list", registry=url).out
            assert stopped(process, signal.SIGTERM)[0] == 0
    finally:
        agent.stop()


@pytest.mark.parametrize(
    ("target", "code", "said"),
    [
        ("mesh:agnt", 1, "hint: did you mean 'agent'?"),
        ("mesh:number", 1, "error: mesh:number is not an Agent but int"),
        ("mesh:Other", 1, "hint: derive it from Agent"),
        ("mesh:Picky", 1, "error: mesh:Picky needs arguments: city"),
        ("mesh:broken", 1, "error: mesh:broken() failed: LookupError: no key"),
        ("nowhere:agent", 1, "error: module 'nowhere' not found"),
        ("mesh.py:agent", 1, "hint: mesh without .py"),
        (
            "sick:agent",
            1,
            "error: importing sick failed: ModuleNotFoundError: No module named 'not_installed_anywhere'",
        ),
        ("eager:agent", 1, "error: eager:agent is already running"),
        ("mesh", 2, "error: 'mesh' is not module:attribute"),
    ],
)
def test_an_object_that_cannot_be_served_is_named(folder: Path, target: str, code: int, said: str) -> None:
    done = plgrpc("serve", target, cwd=folder)
    assert done.code == code
    assert said in done.err.splitlines()
    assert "Traceback" not in done.err


def test_a_port_in_use_is_an_error_with_a_hint(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"grpc://127.0.0.1:{taken.getsockname()[1]}"
        done = plgrpc("serve", "mesh:agent", "--url", url, "-o", "json", cwd=folder)
    assert done.code == 1
    assert done.out == ""
    error = json.loads(done.err)["error"]
    assert error["code"] == "ADDRESS_IN_USE"
    assert "--url" in error["hint"]


def test_certificates_for_a_url_without_tls_are_refused(folder: Path) -> None:
    command = ["serve", "mesh:agent", "--url", "grpc://127.0.0.1:0", "--tls-cert", "c.pem", "--tls-key", "k.pem"]
    done = plgrpc(*command, cwd=folder)
    assert done.code == 2
    assert "grpcs://" in done.err


def test_agents_are_listed_by_name_role_tag_skill_and_metadata(registry: str) -> None:
    cards = [
        AgentCard("hotel", "books", "grpc://127.0.0.1:0", tags=["travel", "eu"], metadata={"zone": "a"}),
        AgentCard("train", "books", "grpc://127.0.0.1:0", tags=["travel"], role="orchestrator"),
    ]
    agents = [Agent(card, registry=registry) for card in cards]
    agents[0].add_tool(book)
    for agent in agents:
        agent.start(background=True)
    try:
        text = plgrpc("agents", "list", registry=registry)
        assert [line.split()[0] for line in text.out.splitlines()] == ["NAME", "hotel", "train"]
        assert agents[0].card.url in text.out
        for flags in (
            ["--tag", "travel", "--tag", "eu"],
            ["--skill", "book"],
            ["--meta", "zone=a"],
            ["--role", "worker"],
        ):
            (found,) = plgrpc("agents", "list", *flags, "-o", "json", registry=registry).document["agents"]
            assert AgentCard.from_dict(found["card"]).name == "hotel"
        assert plgrpc("agents", "list", "--name", "nobody", "-o", "json", registry=registry).document["agents"] == []
    finally:
        for agent in agents:
            agent.stop()


def test_a_watch_shows_registrations_and_removals_until_ctrl_c(registry: str) -> None:
    with running("agents", "watch", "-o", "json", registry=registry) as process:
        agent = Agent(AgentCard(name="hotel", description="books", url="grpc://127.0.0.1:0"), registry=registry)
        agent.start(background=True)
        up = json.loads(process.stdout.readline())
        agent.stop()
        down = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=END_S)
    assert (up["kind"], up["agent"]["card"]["name"]) == ("up", "hotel")
    assert (down["kind"], down["agent"]["card"]["name"]) == ("down", "hotel")
    assert (process.returncode, err) == (130, "")


def test_an_unknown_name_has_exit_code_3_and_a_hint_to_the_list(registry: str) -> None:
    done = plgrpc("send", "hotl", "hello", registry=registry)
    assert done.code == 3
    assert "hint: plgrpc agents list shows the registered agents\n" in done.err


@pytest.mark.parametrize("command", [["agents", "list"], ["agents", "watch"], ["send", "hotel", "hello"]])
def test_an_unreachable_registry_has_exit_code_3(command: list[str]) -> None:
    done = plgrpc(*command, registry="grpc://127.0.0.1:1", retries=False)
    assert done.code == 3
    assert "plgrpc doctor grpc://127.0.0.1:1 checks both" in done.err
