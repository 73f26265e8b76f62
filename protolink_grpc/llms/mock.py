"""Offline models: MockLLM answers by rules, ScriptedLLM follows a script.

An answer is a text (final), or a dict in the shape of an action: `{"type": "final", "content": ...}`,
`{"type": "tool_call", "tool": ..., "args": {...}}`, `{"type": "agent_call", "agent": ..., "action": "infer", "prompt": ...}` or
`{"type": "agent_call", "agent": ..., "action": "tool_call", "tool": ..., "args": {...}}`, each with an optional `thought`.
"""

import asyncio
import inspect
import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from protolink_grpc.errors import InvalidArgumentError, ModelError, ModelTimeoutError
from protolink_grpc.llms.answers import AGENT_TOOL, DELEGATE_TOOL
from protolink_grpc.llms.base import LLM
from protolink_grpc.llms.port import (
    RUNTIME_KEY,
    ModelItem,
    ModelRequest,
    ModelResponse,
    ModelToolCall,
    ModelUsage,
    TextChunk,
)
from protolink_grpc.llms.profile import CHARS_PER_TOKEN, estimate_tokens
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.conversation import LLMMessage

PIECE_CHARS = 24
"""Length of a TextChunk: short enough that a sentence has several."""

KEPT_REQUESTS = 100
"""Requests that a MockLLM keeps for tests."""

ACTION_TYPES = ("final", "tool_call", "agent_call")

Answer = str | Mapping[str, Any] | Sequence[Mapping[str, Any]] | ModelResponse
"""A text, one action, several tool calls at once, or the response itself."""

Step = Answer | Exception | Callable[[ModelRequest], "Answer | Exception | Awaitable[Answer | Exception]"]


@checks_arguments
class MockLLM(LLM):
    """A model for examples and tests that answers by rules.

    The first rule with an answer is used: `response_callback`, the next of `sequential_responses`, the first entry of
    `mock_responses` whose key is part of the last text of the user or a tool, `default_response`.

    Args:
        mock_responses: Answers by a part of the prompt. An empty key matches every prompt.
        sequential_responses: Answers in the order of all calls. After the last one, the next rule is used.
        response_callback: Called with the last text of the user or a tool; a result of None means that the next rule is used.
        native_tools: False writes every answer as the JSON text of an action, as for models without native tool calls.
        input_media: As in LLMModelProfile.

    Attributes:
        requests: The latest KEPT_REQUESTS requests, oldest first.
    """

    def __init__(
        self,
        mock_responses: Mapping[str, Answer] | None = None,
        sequential_responses: Sequence[Answer] | None = None,
        response_callback: Callable[[str], Answer | None] | None = None,
        default_response: Answer = "This is a mock response.",
        *,
        model: str = "mock",
        native_tools: bool = True,
        input_media: Sequence[str] | None = None,
    ) -> None:
        super().__init__("mock", model)
        self.native_tools = native_tools
        if input_media is not None:
            self.configure_metrics(input_media=tuple(input_media))
        self.requests: deque[ModelRequest] = deque(maxlen=KEPT_REQUESTS)
        self._by_prompt = dict(mock_responses or {})
        self._sequence = iter(tuple(sequential_responses or ()))
        self._callback = response_callback
        self._default = default_response
        for answer in (*self._by_prompt.values(), *(sequential_responses or ()), default_response):
            _check(answer, "response")

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        """As `llms.port.LanguageModel.generate`."""
        self.requests.append(request)
        answer = self._answer(_last_text(request.messages))
        if isinstance(answer, str):
            answer = _action_in(answer) or {"type": "final", "content": answer}
        response = _response(answer, request, self.model, self.native_tools)
        for item in _items(response):
            yield item

    def _answer(self, prompt: str) -> Answer:
        answer = self._callback(prompt) if self._callback else None
        if answer is not None:
            _check(answer, "response_callback")
        else:
            answer = next(self._sequence, None)
        if answer is None:
            answer = next((each for part, each in self._by_prompt.items() if part in prompt), self._default)
        return answer


@checks_arguments
class ScriptedLLM(LLM):
    """A model that follows a script: one step for each answer of a turn.

    The step depends only on the conversation (the number of answers since the user's last message), so that calls may come from
    several tasks, or from a new process after a crash: the same point of a conversation always has the same answer. Each turn
    starts the script again.

    Args:
        steps: The answers. A sequence of dicts is one answer with several tool calls. An exception is raised before the following
            answer once in each turn, or always if no answer follows. A callable is called with the request and returns a step or
            an awaitable.
        native_tools: False writes dicts as JSON text and uses no tool calls. Texts are unchanged, even if they are invalid.

    Attributes:
        requests: Copies of the requests, oldest first.
    """

    def __init__(self, steps: Sequence[Step], native_tools: bool = True, *, model: str = "script") -> None:
        super().__init__("scripted", model)
        self.native_tools = native_tools
        self.requests: list[ModelRequest] = []
        self._entries = _entries(steps)
        self._failed: Counter[tuple[str, int]] = Counter()

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        """As `llms.port.LanguageModel.generate`. Raises ModelError at the end of the script."""
        self.requests.append(replace(request, messages=tuple(request.messages)))
        step = self._step(request)
        if callable(step):
            step = await _call_step(step, request)
        if isinstance(step, Exception):
            raise step
        for item in _items(_response(step, request, self.model, self.native_tools)):
            yield item

    def _step(self, request: ModelRequest) -> Step:
        turn, position = place(request.messages)
        if position >= len(self._entries):
            raise ModelError(f"the script is over after {len(self._entries)} answers", steps=str(len(self._entries)))
        entry = self._entries[position]
        failed = self._failed[turn, position]
        if failed < len(entry.failures):
            self._failed[turn, position] += 1
            return entry.failures[failed]
        return entry.failures[-1] if entry.step is None else entry.step


@dataclass(frozen=True, slots=True)
class _Entry:
    """One position of a script: errors to raise first, then the answer. Without an answer the last error is always raised."""

    failures: tuple[Exception, ...]
    step: Step | None


def place(messages: Sequence[LLMMessage]) -> tuple[str, int]:
    """The position in a conversation: the id of the message that started the turn, and the number of answers since then.

    Messages that the inference loop writes in the user role (results, corrections, notes) do not start a turn.
    """
    answers = 0
    for message in reversed(messages):
        if message.role == "assistant":
            answers += 1
        elif message.role == "user" and RUNTIME_KEY not in message.metadata:
            return message.id, answers
    return "", answers


def _entries(steps: Sequence[Step]) -> list[_Entry]:
    entries: list[_Entry] = []
    failures: list[Exception] = []
    for index, step in enumerate(steps):
        if isinstance(step, Exception):
            failures.append(step)
            continue
        if not callable(step):
            _check(step, f"steps[{index}]")
        entries.append(_Entry(tuple(failures), step))
        failures = []
    if failures:
        entries.append(_Entry(tuple(failures), None))
    return entries


async def _call_step(
    step: Callable[[ModelRequest], Answer | Exception | Awaitable[Answer | Exception]], request: ModelRequest
) -> Answer | Exception:
    clock = asyncio.timeout(request.timeout_s)
    try:
        async with clock:
            result = step(request)
            answer = await result if inspect.isawaitable(result) else result
    except TimeoutError as error:
        # A step may also raise a TimeoutError of its own.
        if not clock.expired():
            raise
        raise ModelTimeoutError(f"no answer within {request.timeout_s} s") from error
    if not isinstance(answer, Exception):
        _check(answer, "step")
    return answer


def _check(answer: object, field: str) -> None:
    """Check that a step can be an answer, when the model is created."""
    actions = [answer] if isinstance(answer, Mapping) else answer
    if isinstance(answer, (str, ModelResponse)):
        return
    if not isinstance(actions, Sequence) or not actions:
        raise InvalidArgumentError(
            "must be a text, an action, a sequence of tool calls or a ModelResponse", field=field
        )
    for action in actions:
        kind = action.get("type") if isinstance(action, Mapping) else None
        if kind not in ACTION_TYPES:
            raise InvalidArgumentError(f"must be one of {', '.join(ACTION_TYPES)}", field=f"{field}.type")


def _action_in(text: str) -> Mapping[str, Any] | None:
    """Parse the JSON of an action, or return None."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        action = json.loads(text)
    except ValueError:
        return None
    return action if isinstance(action, dict) and action.get("type") in ACTION_TYPES else None


def _last_text(messages: Sequence[LLMMessage]) -> str:
    return next((message.content for message in reversed(messages) if message.role in ("user", "tool")), "")


def _response(answer: Answer, request: ModelRequest, model: str, native: bool) -> ModelResponse:
    if isinstance(answer, ModelResponse):
        return answer
    calls: tuple[ModelToolCall, ...] = ()
    if isinstance(answer, str):
        text = answer
    elif not native:
        text = _json(answer)
    else:
        text, calls = _native([answer] if isinstance(answer, Mapping) else answer, len(request.messages))
    written = estimate_tokens(text) + sum(estimate_tokens(call.name + _json(call.arguments)) for call in calls)
    usage = ModelUsage(_prompt_tokens(request), written)
    return ModelResponse(text, calls, usage, "tool_calls" if calls else "stop", model)


def _native(actions: Sequence[Mapping[str, Any]], base: int) -> tuple[str, tuple[ModelToolCall, ...]]:
    """The text and tool calls of an answer.

    Ids depend on the length of the conversation: unique there, and the same in a repetition.
    """
    texts: list[str] = []
    calls: list[ModelToolCall] = []
    ids = (f"call_{base}_{index}" for index in count())
    for action in actions:
        if action["type"] == "final":
            content = action.get("content", "")
            texts.append(content if isinstance(content, str) else _json(content))
            continue
        if action.get("thought"):
            texts.append(str(action["thought"]))
        calls.append(_call(action, next(ids)))
    return "\n".join(texts), tuple(calls)


def _call(action: Mapping[str, Any], call_id: str) -> ModelToolCall:
    args = action.get("args", {})
    if action["type"] == "tool_call":
        name, arguments = str(action.get("tool", "")), args
    elif action.get("action") == "tool_call":
        name = AGENT_TOOL
        arguments = {"agent": action.get("agent", ""), "tool": action.get("tool", ""), "args": args}
    else:
        name = DELEGATE_TOOL
        arguments = {"agent": action.get("agent", ""), "prompt": action.get("prompt", "")}
    if isinstance(arguments, Mapping):
        return ModelToolCall(name, dict(arguments), call_id)
    return ModelToolCall(name, call_id=call_id, raw=arguments if isinstance(arguments, str) else _json(arguments))


def _prompt_tokens(request: ModelRequest) -> int:
    chars = len(request.system) + sum(len(message.content) for message in request.messages)
    media = sum(each.estimated_tokens for message in request.messages for each in message.media)
    return -(-chars // CHARS_PER_TOKEN) + media


def _items(response: ModelResponse) -> Iterator[ModelItem]:
    text = response.text
    for start in range(0, len(text), PIECE_CHARS):
        yield TextChunk(text[start : start + PIECE_CHARS])
    yield response


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: object) -> object:
    """Convert mappings other than dicts, for json."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")
