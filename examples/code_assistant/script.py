"""The models of the agents: scripts that need no key, or those of a provider.

The scripts know the project of the demo. The first change is incomplete on purpose: the checks find that, and a second one follows.
"""

import json
import os
from typing import Any

from examples.mesh.models import MODEL, Choice, provider_model
from protolink_grpc import LLM, create_llm
from protolink_grpc.llms import ModelRequest

ORCHESTRATOR, PLANNER, REVIEWER = "orchestrator", "planner", "reviewer"

SCRIPT = Choice("script", "scripts in place of language models")

PLAN = """\
1. slugify keeps punctuation and repeated spaces: only replace() works on the title.
2. In slugs.py, find the runs of letters and digits instead, and join them with hyphens.
3. Leave test_slugs.py unchanged."""

FIRST = '''\
"""Titles as parts of URLs."""

import re


def slugify(title: str) -> str:
    """Return the title as lower-case words, joined by hyphens."""
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))
'''

SECOND = '''\
"""Titles as parts of URLs."""

import re
import unicodedata


def slugify(title: str) -> str:
    """Return the words of the title without accents, joined by hyphens."""
    split = unicodedata.normalize("NFKD", title.lower())
    letters = split.encode("ascii", "ignore").decode()
    return "-".join(re.findall(r"[a-z0-9]+", letters))
'''


MESSAGE = "Drop accents and punctuation from slugs"


def create_model(role: str, name: str | None = None) -> LLM:
    """Create the model of an agent, by default the one in the environment. Raises as `provider_model`."""
    name = name or os.environ.get(MODEL, SCRIPT.name)
    return create_llm("scripted", steps=STEPS[role]) if name == SCRIPT.name else provider_model(name)


# -- The orchestrator ----------------------------------------------------------------------------------------------------


def _read(request: ModelRequest) -> dict[str, Any]:
    thought = "One test still fails; I read the file again." if _is_second(request) else "I read the module."
    return _call(thought, "read_file", path="slugs.py")


def _write(request: ModelRequest) -> dict[str, Any]:
    version = _result(request)["version"]
    if _is_second(request):
        return _call("First I take the accents off.", "write_file", path="slugs.py", content=SECOND, version=version)
    return _call("Words are letters and digits.", "write_file", path="slugs.py", content=FIRST, version=version)


def _finish(request: ModelRequest) -> dict[str, Any]:
    result = _result(request)
    if "status" in result:
        return _final(done=False, summary=result["message"])
    return _final(done=True, summary=MESSAGE if _is_second(request) else "Find the words of a title")


def _is_second(request: ModelRequest) -> bool:
    """Return whether an earlier change was not accepted."""
    return any("objection: " in message.content for message in request.messages if message.role == "user")


# -- The reviewer --------------------------------------------------------------------------------------------------------


def _review(request: ModelRequest) -> dict[str, Any]:
    if "+++ b/test_" in request.messages[-1].content:
        return _final(accepted=False, reason="The change edits the tests.")
    return _final(accepted=True, reason="The change is small, keeps the tests and reaches the goal.")


# -- Answers -------------------------------------------------------------------------------------------------------------


def _result(request: ModelRequest) -> dict[str, Any]:
    """Return the result of the latest call; one with a `status` has failed."""
    result: dict[str, Any] = json.loads(request.messages[-1].content)
    return result


def _call(thought: str, tool: str, **arguments: str) -> dict[str, Any]:
    action = {"type": "agent_call", "agent": "coder", "action": "tool_call", "tool": tool, "args": arguments}
    return {**action, "thought": thought}


def _final(**content: Any) -> dict[str, Any]:
    return {"type": "final", "content": content}


STEPS: dict[str, list[Any]] = {ORCHESTRATOR: [_read, _write, _finish], PLANNER: [PLAN], REVIEWER: [_review]}
"""The answers of each model, in their order."""
