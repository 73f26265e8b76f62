"""The limits of prompts: `ContextPolicy`, and the limits that follow from it for one model."""

from dataclasses import dataclass
from typing import Literal

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.llms.profile import CHARS_PER_TOKEN, LLMModelProfile
from protolink_grpc.models.arguments import checks_arguments

RESERVED_SHARE = 8
"""By default an eighth of the window is reserved, because token counts are estimates and the answer needs room."""

RESULT_SHARE = 4
"""By default a tool result may take a quarter of the prompt."""


@checks_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPolicy:
    """The limits of a prompt. Before each model call, older parts of a prompt that is too large are shortened or removed.

    Tokens are estimates of the model's profile. None means a value that follows from the model's context window; while the window
    is unknown, it means no limit.

    Args:
        max_tokens: Maximum size of prompt and answer together; None means the context window of the model's profile.
        reserve_tokens: The part of `max_tokens` that the prompt leaves free, for the answer and for errors of the estimate. None
            means an eighth of `max_tokens` plus `InferSettings.max_output_tokens`.
        preserve_recent: Number of latest messages of earlier turns that are removed only if the prompt does not fit with them.
        tool_result_max_chars: Maximum length of a tool result in the prompt, in characters of its JSON. The model gets the
            beginning of a longer one, and can read the rest with the tool `read_context_artifact`. None means a quarter of the
            prompt.
        max_artifacts: Number of shortened results that the model can read, the latest ones.
        artifact_max_chars: Number of characters of one result that the model can read.
        summary_tokens: Maximum size of a summary of removed messages, which the model writes in a call of its own. 0 removes
            messages without a summary.

    Raises:
        InvalidArgumentError: A number is too small; names the field.
    """

    max_tokens: int | None = None
    reserve_tokens: int | None = None
    preserve_recent: int = 6
    tool_result_max_chars: int | None = None
    max_artifacts: int = 32
    artifact_max_chars: int = 1_000_000
    summary_tokens: int = 0

    def __post_init__(self) -> None:
        for name, least in (
            ("max_tokens", 1),
            ("reserve_tokens", 0),
            ("preserve_recent", 0),
            ("tool_result_max_chars", 1),
            ("max_artifacts", 0),
            ("artifact_max_chars", 1),
            ("summary_tokens", 0),
        ):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InvalidArgumentError(f"must be at least {least}", field=name)
        if self.max_tokens is not None and (self.reserve_tokens or 0) >= self.max_tokens:
            raise InvalidArgumentError("must be smaller than max_tokens", field="reserve_tokens")

    def limits(self, profile: LLMModelProfile, max_output_tokens: int | None) -> "ContextLimits":
        """Return the limits for a model and the maximum length of its answers in tokens."""
        window = profile.context_window if self.max_tokens is None else self.max_tokens
        if window is None:
            return ContextLimits(None, None, self.tool_result_max_chars)
        reserved = self.reserve_tokens
        if reserved is None:
            reserved = min(window // RESERVED_SHARE + (max_output_tokens or 0), window - 1)
        prompt = max(window - reserved, 1)
        result_chars = self.tool_result_max_chars
        if result_chars is None:
            result_chars = max(prompt * CHARS_PER_TOKEN // RESULT_SHARE, 1)
        return ContextLimits(window, prompt, result_chars)


@dataclass(frozen=True, slots=True)
class ContextLimits:
    """The limits of one prompt. None means no limit.

    Args:
        window: Tokens of prompt and answer.
        prompt: Tokens of the prompt.
        result_chars: Characters of a tool result.
    """

    window: int | None
    prompt: int | None
    result_chars: int | None


ContextSetting = ContextPolicy | Literal["auto"] | None
"""A policy; "auto" for `ContextPolicy()`; None for no limits."""


def context_policy_of(setting: ContextSetting) -> ContextPolicy | None:
    """Return the policy of a setting.

    Raises:
        InvalidArgumentError: Another text than "auto".
    """
    if setting == "auto":
        return ContextPolicy()
    if isinstance(setting, str):
        raise InvalidArgumentError('must be a ContextPolicy, "auto" or None', field="context_policy")
    return setting
