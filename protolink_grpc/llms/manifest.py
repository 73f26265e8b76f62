"""How many tokens are about to enter a model, and where they come from. Estimates; no text is counted twice in an inference."""

from collections.abc import Callable, Sequence

from protolink_grpc.llms.port import LanguageModel
from protolink_grpc.llms.profile import LLMModelProfile
from protolink_grpc.models.action import ContextItem, ContextManifest
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.conversation import LLMMessage, message_tokens

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
    """The manifest of a prompt that consists of `items`, of kinds `system`, `tools`, `history`, `turn` and `user`.

    `turn` is what the inference itself has added: answers so far and what came of them. It counts as history.
    """
    tokens = dict.fromkeys(("system", "tools", "history", "turn", "user"), 0)
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
        user_tokens=tokens["user"],
        context_items=items,
        context_window=profile_of(model).context_window,
    )


class ContextMeter:
    """The tokens of one inference's prompt as it grows.

    Args:
        count: Tokens of a text.
        system: All of the instructions.
        affordances: The part of them that declares tools and agents.
        declared: The tools that go beside the instructions, as text.
    """

    __slots__ = ("_count", "_fixed", "_messages", "_turn_tokens", "_user")

    def __init__(
        self,
        count: Callable[[str], int],
        *,
        system: str,
        affordances: str,
        declared: str,
        history: Sequence[LLMMessage],
        query: str,
    ) -> None:
        self._count = count
        inside = count(affordances)
        sections = (
            ContextItem("system", "instructions", max(count(system) - inside, 0)),
            ContextItem("tools", "declarations", inside + count(declared)),
            ContextItem("history", "conversation", sum(message_tokens(message, count) for message in history)),
        )
        self._fixed = tuple(section for section in sections if section.tokens)
        self._user = ContextItem("user", "query", count(query))
        self._turn_tokens = 0
        self._messages = 0

    def add(self, message: LLMMessage) -> None:
        """Count a message that the prompt has gained."""
        self._turn_tokens += message_tokens(message, self._count)
        self._messages += 1

    @property
    def items(self) -> tuple[ContextItem, ...]:
        """The sections that are not empty, and the question."""
        if not self._messages:
            return (*self._fixed, self._user)
        turn = ContextItem("turn", "observations", self._turn_tokens, {"messages": self._messages})
        return (*self._fixed, turn, self._user)
