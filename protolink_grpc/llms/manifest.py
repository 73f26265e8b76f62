"""Context manifests: the estimated tokens of a prompt by part, author and role. Each text is counted once.

The metadata of each item contains its `role` (`system`, `user`, `tool_definition`, or `conversation` for messages of several
roles) and its `provenance` (`prompt.Provenance`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from protolink_grpc.llms.port import LanguageModel, ModelRequest, ToolSpec
from protolink_grpc.llms.profile import LLMModelProfile
from protolink_grpc.llms.prompt import Provenance, Section, summary_line
from protolink_grpc.models.action import PURPOSE, ContextItem, ContextManifest, OmittedItems
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.conversation import LLMMessage, message_tokens
from protolink_grpc.models.json_value import to_json
from protolink_grpc.models.media import Media
from protolink_grpc.models.tool import OfferedTools

_UNKNOWN = LLMModelProfile()

LAST_MESSAGE = "last_message"
"""Key in the metadata of the item `history`: the id of the last message of the conversation before the inference."""

CONTEXT_WINDOW, TOO_LARGE, UNSUPPORTED, LIMIT, HOOK = "context_window", "too_large", "unsupported", "limit", "hook"
"""Reasons of OmittedContext: the prompt is too large for the window, one result alone is too large, the model does not take it,
it is beyond a limit of the application, a hook has removed it."""


@dataclass(frozen=True, slots=True)
class PromptFacts:
    """What the log records about a prompt beside its tokens.

    Args:
        offered: The tools and peers that the model can call.
        omitted: What the prompt leaves out.
    """

    offered: OfferedTools = field(default_factory=OfferedTools)
    omitted: OmittedItems = field(default_factory=OmittedItems)


SUMMARY, TOOL_QUESTION = "summary", "tool_question"
"""Purposes of prompts outside of an inference: one summarizes its conversation, the other is a question of a tool."""

NO_FACTS = PromptFacts()
"""A prompt without tools that is complete."""


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
    purpose: str = "",
) -> ContextManifest:
    """Build the manifest of a prompt from its `items`, of the kinds `system`, `tools`, `history`, `turn`, `data` and `user`.

    `turn` contains the answers and results of this inference so far; it counts as history. `data` contains the data blocks of
    callers and peers; it counts as the user's. `purpose` is that of `ContextManifest`.
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
        metadata={PURPOSE: purpose} if purpose else {},
    )


class ContextMeter:
    """Counts the tokens of an inference's prompt while it grows and shrinks.

    Args:
        count: Returns the tokens of a text.
        sections: The sections before the query.
        declared: Own tools that the model gets as definitions.
        delegation: The delegation tools; their definitions name the peers.
        media: The files of the query. Their tokens are `Media.estimated_tokens`, for every model.

    Attributes:
        history_tokens: Tokens of the conversation before the inference.
        last_message: Id of the last message of that conversation. A repeated attempt ends the conversation there.
        turn_tokens: Tokens of the messages of the inference so far.
        turn_messages: Number of these messages.
    """

    __slots__ = (
        "_artifact_tool",
        "_before",
        "_count",
        "_data",
        "_fixed_tokens",
        "_user",
        "history_tokens",
        "last_message",
        "turn_messages",
        "turn_tokens",
    )

    def __init__(
        self,
        count: Callable[[str], int],
        *,
        sections: Sequence[Section] = (),
        declared: Sequence[ToolSpec] = (),
        delegation: Sequence[ToolSpec] = (),
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
        self._before = (*system, *tools)
        if media:
            files = _item("user", "files", sum(each.estimated_tokens for each in media), "user", "caller")
            files.metadata["files"] = [each.reference for each in media]
            data.append(files)
        self._data = tuple(data)
        self._user = _item("user", "query", count(query), "user", "caller")
        self._fixed_tokens = sum(item.tokens for item in (*self._before, *self._data, self._user))
        self._artifact_tool: tuple[ContextItem, ...] = ()
        self.history_tokens = 0
        self.last_message = ""
        self.turn_tokens = 0
        self.turn_messages = 0

    def count(self, message: LLMMessage) -> int:
        """Return the tokens of a message."""
        return message_tokens(message, self._count)

    def count_summarized(self, message: LLMMessage) -> int:
        """Return the tokens of a message in the prompt of a summary, which has references instead of files."""
        return self._count(summary_line(message))

    def count_request(self, request: ModelRequest) -> int:
        """Return the tokens of a prompt."""
        tools = self._count(_definitions_text(request.tools)) if request.tools else 0
        return self._count(request.system) + tools + sum(map(self.count, request.messages))

    def add(self, message: LLMMessage) -> None:
        """Count a message that was added to the prompt."""
        self.turn_tokens += self.count(message)
        self.turn_messages += 1

    def set_artifact_tool(self, tools: Sequence[ToolSpec]) -> None:
        """Set the tools that read shortened results: none, or one."""
        if bool(tools) != bool(self._artifact_tool):
            tokens = self._count(_definitions_text(tools))
            item = _item("tools", "context_artifacts", tokens, "tool_definition", "runtime")
            self._artifact_tool = (item,) if tools else ()

    @property
    def total(self) -> int:
        """The tokens of the whole prompt."""
        artifact_tool = sum(item.tokens for item in self._artifact_tool)
        return self._fixed_tokens + artifact_tool + self.history_tokens + self.turn_tokens

    @property
    def items(self) -> tuple[ContextItem, ...]:
        """The parts of the prompt in their order; the query is the last one."""
        found = [*self._before, *self._artifact_tool]
        # Also if all of it was removed: a repeated attempt has to know where it ended.
        if self.history_tokens or self.last_message:
            facts = {LAST_MESSAGE: self.last_message} if self.last_message else {}
            found.append(_item("history", "conversation", self.history_tokens, "conversation", "memory", **facts))
        if self.turn_messages:
            found.append(
                _item("turn", "observations", self.turn_tokens, "conversation", "run", messages=self.turn_messages)
            )
        return (*found, *self._data, self._user)


def _item(kind: str, name: str, tokens: int, role: str, provenance: Provenance, **facts: int | str) -> ContextItem:
    return ContextItem(kind, name, tokens, {"role": role, "provenance": provenance, **facts})


def _definitions_text(tools: Sequence[ToolSpec]) -> str:
    return to_json([(tool.name, tool.description, tool.input_schema) for tool in tools])
