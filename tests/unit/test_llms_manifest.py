"""Context manifests: tokens of a prompt by author and role."""

from protolink_grpc.llms.loop_host import InferenceRequest
from protolink_grpc.llms.manifest import ContextMeter, build_context_manifest, profile_of
from protolink_grpc.llms.mock import ScriptedLLM
from protolink_grpc.llms.port import ToolSpec
from protolink_grpc.llms.profile import LLMModelProfile
from protolink_grpc.llms.prompt import Section, build_prompt, delegation_tools
from protolink_grpc.models.action import ContextItem, ContextManifest
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.conversation import LLMMessage

CONTEXT = RunContext(run_id="run_1", session_id="s_1", agent_chain=["planner"])


SECTIONS = (
    Section("system", "instructions", "system", "author", "be kind; "),
    Section("tools", "declarations", "system", "author", "TOOLS"),
)


def meter(history: list[LLMMessage] | None = None) -> ContextMeter:
    found = ContextMeter(len, sections=SECTIONS, query="where?")
    found.history_tokens = sum(map(found.count, history or []))
    return found


def test_the_tool_prompt_is_part_of_the_system_and_counts_once() -> None:
    manifest = build_context_manifest(ScriptedLLM([]), meter().items)
    assert (manifest.system_tokens, manifest.tool_prompt_tokens, manifest.user_tokens) == (14, 5, 6)
    assert manifest.total_estimated_tokens == 14 + 6


def test_history_and_turn_count_as_history_and_are_separate_items() -> None:
    counted = meter([LLMMessage("user", "12345")])
    counted.add(LLMMessage("assistant", "123"))
    counted.add(LLMMessage("tool", "12"))
    manifest = build_context_manifest(ScriptedLLM([]), counted.items)
    assert manifest.history_tokens == 10
    assert [(item.kind, item.tokens) for item in manifest.context_items] == [
        ("system", 9),
        ("tools", 5),
        ("history", 5),
        ("turn", 5),
        ("user", 6),
    ]


def test_each_item_names_its_author_and_role() -> None:
    tool, peer = ToolSpec("weather", "How it is"), AgentCard("hotel", "Rooms", "grpc://hotel")
    request = InferenceRequest(
        "k",
        "where?",
        "Be kind.",
        [LLMMessage("user", "hi")],
        [tool],
        [peer],
        {"type": "string"},
        flow_prompt="Then book.",
        caller_flow_prompt="Step 2.",
    )
    for native in (True, False):
        prompt = build_prompt(request, native_tools=native)
        counted = ContextMeter(
            len,
            sections=prompt.sections,
            declared=[tool] if native else [],
            delegation=delegation_tools(request) if native else [],
            query=request.query,
        )
        counted.history_tokens = sum(map(counted.count, request.history))
        counted.add(LLMMessage("assistant", "x"))
        found = {(item.kind, item.name): tuple(item.metadata.values())[:2] for item in counted.items}
        tools = (
            {
                ("tools", "definitions"): ("tool_definition", "author"),
                ("tools", "delegation"): ("tool_definition", "peers"),
            }
            if native
            else {("tools", "declarations"): ("system", "author")}
        )
        assert found == tools | {
            ("system", "instructions"): ("system", "author"),
            ("system", "flow_prompt"): ("system", "own_flow"),
            ("system", "rules"): ("system", "runtime"),
            ("history", "conversation"): ("conversation", "memory"),
            ("turn", "observations"): ("conversation", "run"),
            ("data", "agents"): ("user", "peers"),
            ("data", "flow_prompt"): ("user", "caller"),
            ("data", "output_schema"): ("user", "caller"),
            ("user", "query"): ("user", "caller"),
        }
        manifest = build_context_manifest(ScriptedLLM([]), counted.items)
        assert manifest.user_tokens == len("where?") + sum(
            len(each.text) for each in prompt.sections if each.role == "user"
        )


def test_a_manifest_names_the_run_and_the_model() -> None:
    model = ScriptedLLM([])
    model.profile = LLMModelProfile(context_window=8192)
    manifest = build_context_manifest(model, meter().items, run_context=CONTEXT)
    assert (manifest.run_id, manifest.session_id, manifest.agent_name) == ("run_1", "s_1", "planner")
    assert (manifest.provider, manifest.model, manifest.context_window) == ("scripted", "script", 8192)
    assert manifest.estimated
    assert build_context_manifest(model, (), run_context=CONTEXT, agent_name="me").agent_name == "me"


def test_a_manifest_survives_its_json() -> None:
    manifest = build_context_manifest(ScriptedLLM([]), (ContextItem("user", "query", 3),), run_context=CONTEXT)
    assert ContextManifest.from_dict(manifest.to_dict()) == manifest


def test_a_model_without_a_profile_is_unknown_in_everything() -> None:
    assert profile_of(object()) == LLMModelProfile()  # type: ignore[arg-type]  # any object will do here
