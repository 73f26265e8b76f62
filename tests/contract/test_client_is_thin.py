"""The client does not import the runtime. It imports implementations of higher layers by name, and each name exists."""

import subprocess
import sys

import pytest

from protolink_grpc.client.channel import ChannelOptions
from protolink_grpc.client.sources import GRPC, LOCAL, SOURCES, WEB, SourceOptions, create_source

URLS = {GRPC: "grpc://127.0.0.1:1", LOCAL: "runtime://echo", WEB: "http://127.0.0.1:1"}

ABOVE = (
    "a2a",
    "agent",
    "compat",
    "edges",
    "llms",
    "policy",
    "registry",
    "reports",
    "runtime",
    "state",
    "store",
    "tools",
)


def test_a_client_of_a_grpc_agent_loads_nothing_that_runs_agents() -> None:
    code = (
        "import sys\n"
        "from protolink_grpc import AgentClient, RegistryClient\n"
        "client = AgentClient('grpc://127.0.0.1:1')\n"
        "client._agent(None)\n"
        "RegistryClient('grpc://127.0.0.1:1')\n"
        "print(*sorted(name for name in sys.modules if name.startswith('protolink_grpc.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[1] for name in done.stdout.split()}
    assert "client" in loaded
    assert not loaded & set(ABOVE)


@pytest.mark.parametrize("scheme", SOURCES)
def test_each_scheme_has_a_source_that_opens_agents(scheme: str) -> None:
    name = SOURCES[scheme]
    source = create_source(name, SourceOptions(ChannelOptions()))
    assert source.open(URLS[name], "grpc") is not None
