"""Context manifests: the estimated tokens of a prompt by part, author and role. Each text is counted once.

The metadata of each item contains its `role` (`system`, `user`, `tool_definition`, or `conversation` for messages of several
roles) and its `provenance` (`prompt.Provenance`).
"""

from collections.abc import Callable, Sequence

from protolink_grpc.llms.port import LanguageModel, ToolSpec
from protolink_grpc.llms.profile import LLMModelProfile
from protolink_grpc.llms.prompt import Provenance, Section
from protolink_grpc.models.action import ContextItem, ContextManifest
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.conversation import LLMMessage, message_tokens
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.media import Media

_UNKNOWN = LLMModelProfile()


def profile_of(model: LanguageModel) -> LLMModelProfile:
    """The `profile` of a model, or an empty one."""
    found = getattr(model, "profile", None)  # not a part of LanguageModel: most models have none
    return found if isinstance(found, LLMModelProfile) else _UNKNOWN


def build_context_manifest(
    model: LanguageModel,
    items: tuple[ContextItem, ...],
    *,
    run_context: RunContext | None = None,
    agent_name: str = "",
) -> ContextManifest:
    """Build the manifest of a prompt from its `items`, of the kinds `system`, `tools`, `history`, `turn`, `data` and `user`.

    `turn` contains the answers and results of this inference so far; it counts as history. `data` contains the data blocks of
    callers and peers; it counts as the user's.
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
    """Counts the tokens of an inference's prompt while it grows.

    Args:
        count: Returns the tokens of a text.
        sections: The sections before the query.
        declared: Own tools that the model gets as definitions.
        delegation: The delegation tools; their definitions name the peers.
        media: The files of the query. Their tokens are `Media.estimated_tokens`, for every model.
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
        media: Sequence[Media] = (),
    ) -> None:
        self._count = count
        items = [_item(each.kind, each.name, count(each.text), each.role, each.provenance) for each in sections]
        system, tools, data = ([item for item in items if item.kind == kind] for kind in ("system", "tools", "data"))
        if declared:
            tools.append(_item("tools", "definitions", count(_definitions_text(declared)), "tool_definition", "author"))
        if delegation:
            tools.append(_item("tools", "delegation", count(_definitions_text(delegation)), "tool_definition", "peers"))
        history_tokens = sum(message_tokens(message, count) for message in history)
        past = [_item("history", "conversation", history_tokens, "conversation", "memory")] if history_tokens else []
        self._before = (*system, *tools, *past)
        if media:
            files = _item("user", "files", sum(each.estimated_tokens for each in media), "user", "caller")
            files.metadata["files"] = [each.reference for each in media]
            data.append(files)
        self._data = tuple(data)
        self._user = _item("user", "query", count(query), "user", "caller")
        self._turn_tokens = 0
        self._messages = 0

    def add(self, message: LLMMessage) -> None:
        """Count a message that was added to the prompt."""
        self._turn_tokens += message_tokens(message, self._count)
        self._messages += 1

    @property
    def items(self) -> tuple[ContextItem, ...]:
        """The parts that are not empty, in their order; the query is the last one."""
        turn: tuple[ContextItem, ...] = ()
        if self._messages:
            item = _item("turn", "observations", self._turn_tokens, "conversation", "run", messages=self._messages)
            turn = (item,)
        return (*self._before, *turn, *self._data, self._user)


def _item(kind: str, name: str, tokens: int, role: str, provenance: Provenance, **facts: int) -> ContextItem:
    return ContextItem(kind, name, tokens, {"role": role, "provenance": provenance, **facts})


def _definitions_text(tools: Sequence[ToolSpec]) -> str:
    return to_json([(tool.name, tool.description, tool.input_schema) for tool in tools])
