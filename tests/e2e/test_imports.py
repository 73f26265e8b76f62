"""Optional packages and slow parsers are imported only by programs that use them."""

import os
import subprocess
import sys


def test_making_models_imports_no_providers_package() -> None:
    source = (
        "import sys; from protolink_grpc.llms.factory import create_llm; create_llm('mock'); create_llm('ollama', 'm');"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'pydantic_ai', 'openai', 'anthropic', 'httpx2'}))"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


SLOW_MODEL = """
import asyncio, sys, threading
from protolink_grpc import Agent, AgentCard, create_llm

class Watch:
    threads = {}
    def find_spec(self, name, path=None, target=None):
        self.threads.setdefault(name, threading.current_thread())
        return None

sys.meta_path.insert(0, Watch())

async def main():
    llm = create_llm("ollama", "m", base_url="http://127.0.0.1:9/v1")
    assert not Watch.threads.keys() & {"pydantic_ai.models", "openai.resources"}
    async with Agent(AgentCard("a", "b", "grpc://127.0.0.1:0"), llm=llm):
        for name in ("pydantic_ai.models", "openai.resources", "protolink_grpc.llms.pydantic_ai_answer"):
            assert name in sys.modules, name
            assert Watch.threads[name] is not threading.main_thread(), name

asyncio.run(main())
"""


def test_an_agent_loads_the_package_of_its_model_in_a_thread_before_it_accepts_requests() -> None:
    subprocess.run([sys.executable, "-c", SLOW_MODEL], check=True)


PLAIN = '''
import sys
from protolink_grpc import Tool

def fn(a: int) -> int:
    """Add one.

    Note that this is plain text: nothing more.
    """
    return a + 1

Tool.from_callable(fn)
assert "griffe" not in sys.modules
assert "jsonschema_rs" not in sys.modules
'''


def test_a_plain_docstring_costs_no_parser_at_start() -> None:
    subprocess.run([sys.executable, "-c", PLAIN], check=True)


def test_an_agent_without_mcp_servers_does_not_load_the_mcp_package() -> None:
    source = (
        "import sys; from protolink_grpc import Agent, MCPToolAdapter; Agent('a'); MCPToolAdapter('stdio', command='x');"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'mcp', 'mcp_types', 'httpx2', 'anyio'}))"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


TRACED = """
import sys
from protolink_grpc import Agent
from protolink_grpc.telemetry import LocalTraceTelemetry, OpenTelemetryTelemetry

Agent("a", telemetry=LocalTraceTelemetry())
assert not [name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))]
"""


def test_an_agent_with_telemetry_loads_open_telemetrys_sdk_only_to_export() -> None:
    subprocess.run([sys.executable, "-c", TRACED], check=True)


PLAIN_AGENT = """
import asyncio, sys
from protolink_grpc import Agent, AgentCard, AgentClient

async def main():
    async with Agent(AgentCard("a", "b", "grpc://127.0.0.1:0")) as agent:
        await AgentClient(url=agent.card.url).send_task(None, "hello")

asyncio.run(main())
print(sorted({name.split(".")[0] for name in sys.modules} & {"pydantic", "opentelemetry", "jsonschema_rs", "httpx", "rich"}))
"""


def test_an_agent_without_tools_loads_neither_pydantic_nor_open_telemetry() -> None:
    done = subprocess.run([sys.executable, "-c", PLAIN_AGENT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


TRACED_BY_NAME = """
import asyncio
from protolink_grpc import Agent, AgentCard
from protolink_grpc.net.tracing import is_tracing

async def main():
    async with Agent(AgentCard("a", "b", "grpc://127.0.0.1:0")):
        print(is_tracing())

asyncio.run(main())
"""


def test_an_agent_uses_the_tracer_provider_that_the_environment_names() -> None:
    names = {**os.environ, "OTEL_PYTHON_TRACER_PROVIDER": "sdk_tracer_provider"}
    done = subprocess.run([sys.executable, "-c", TRACED_BY_NAME], capture_output=True, text=True, check=True, env=names)
    assert done.stdout.strip() == "True"
