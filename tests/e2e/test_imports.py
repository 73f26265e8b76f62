"""What a program does not load before it needs it: optional packages and slow parsers."""

import subprocess
import sys


def test_making_models_imports_no_providers_package() -> None:
    source = (
        "import sys; from protolink_grpc.llms.factory import create_llm; create_llm('mock'); create_llm('ollama', 'm');"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'pydantic_ai', 'openai', 'anthropic', 'httpx2'}))"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


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
