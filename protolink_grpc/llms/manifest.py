"""How many tokens are about to enter a model, who wrote them, and in which role. Estimates; no text is counted twice.

Each item of a manifest has in its metadata the `role` that carries it (`system`, `user`, `tool_definition`, or `conversation` for
messages of several roles) and its `provenance` (`prompt.Provenance`).
"""

from collections.abc import Callable, Sequence

from protolink_grpc.llms.port import LanguageModel, ToolSpec
from protolink_grpc.llms.profile import LLMModelProfile
from protolink_grpc.llms.prompt import Provenance, Section
from protolink_grpc.models.action import ContextItem, ContextManifest
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.conversation import LLMMessage, message_tokens
from protolink_grpc.models.json_value import to_json

_UNKNOWN = LLMModelProfile()


def profile_of(model: LanguageModel) -> LLMModelProfile:
    """What is known about a model: its `profile`, where it has one."""
    found = getattr(model, "profile", None)  # no part of the port: most models know nothing of themselves
    return found if isinstance(found, LLMModelProfile) else _UNKNOWN


def build_context_manifest(
    model: LanguageModel,
    items: tuple[ContextItem, ...],
    *,
    run_context: RunContext | None = None,
    agent_name: str = "",
) -> ContextManifest:
    """The manifest of a prompt that consists of `items`, of kinds `system`, `tools`, `history`, `turn`, `data` and `user`.

    `turn` is what the inference itself has added: the model's answers so far and the results of its actions. It counts as history.
    `data` is what callers and peers say beside the question. It counts as the user's.
    """
    tokens = dict.fromkeys(("system", "tools", "history", "turn", "data", "user"), 0)
    for item in items:
        tokens[item.kind] += item.tokens
    context = run_context
    return ContextManifest(
        run_id=context.run_id if context else None,
        session_id=context.session_id if context else None,
        agent_name=agent_name or (context.agent_chain[-1] if context and context.agent_chain else None),
        provider=model.provider,
        model=model.model,
        system_tokens=tokens["system"] + tokens["tools"],
        history_tokens=tokens["history"] + tokens["turn"],
        tool_prompt_tokens=tokens["tools"],
        user_tokens=tokens["data"] + tokens["user"],
        context_items=items,
        context_window=profile_of(model).context_window,
    )


class ContextMeter:
    """The tokens of one inference's prompt as it grows.

    Args:
        count: Tokens of a text.
        sections: What goes before the question.
        declared: Own tools that the model gets as definitions.
        delegation: The tools for delegation, whose definitions name the peers.
    """

    __slots__ = ("_before", "_count", "_data", "_messages", "_turn_tokens", "_user")

    def __init__(
        self,
        count: Callable[[str], int],
        *,
        sections: Sequence[Section] = (),
        declared: Sequence[ToolSpec] = (),
        delegation: Sequence[ToolSpec] = (),
        history: Sequence[LLMMessage] = (),
        query: str = "",
    ) -> None:
        self._count = count
        counted = [_item(each.kind, each.name, count(each.text), each.role, each.provenance) for each in sections]
        system, tools, data = ([item for item in counted if item.kind == kind] for kind in ("system", "tools", "data"))
        if declared:
            tools.append(_item("tools", "definitions", count(_declared(declared)), "tool_definition", "author"))
        if delegation:
            tools.append(_item("tools", "delegation", count(_declared(delegation)), "tool_definition", "peers"))
        said = sum(message_tokens(message, count) for message in history)
        past = [_item("history", "conversation", said, "conversation", "memory")] if said else []
        self._before = (*system, *tools, *past)
        self._data = tuple(data)
        self._user = _item("user", "query", count(query), "user", "caller")
        self._turn_tokens = 0
        self._messages = 0

    def add(self, message: LLMMessage) -> None:
        """Count a message that the prompt has gained."""
        self._turn_tokens += message_tokens(message, self._count)
        self._messages += 1

    @property
    def items(self) -> tuple[ContextItem, ...]:
        """The sections that are not empty, and the question."""
        turn: tuple[ContextItem, ...] = ()
        if self._messages:
            item = _item("turn", "observations", self._turn_tokens, "conversation", "run", messages=self._messages)
            turn = (item,)
        return (*self._before, *turn, *self._data, self._user)


def _item(kind: str, name: str, tokens: int, role: str, provenance: Provenance, **facts: int) -> ContextItem:
    return ContextItem(kind, name, tokens, {"role": role, "provenance": provenance, **facts})


def _declared(tools: Sequence[ToolSpec]) -> str:
    return to_json([(tool.name, tool.description, tool.input_schema) for tool in tools])
