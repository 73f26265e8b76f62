"""The conversation of one inference in two forms: the window for the model, and the turn that is stored for later turns.

The stored form is the same for all models: calls are `tool_calls`, and results have the role `tool`. In the prompt of a model
without native tool calls, calls are JSON of its contract, and results are data blocks in the user role. In both forms, text of
callers, tools and peers never has the system role and cannot contain the marks of a data block.
"""

from collections.abc import Sequence
from dataclasses import replace

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.llms.answers import READ_ARTIFACT, action_text
from protolink_grpc.llms.context_window import ContextWindow
from protolink_grpc.llms.input_media import inline_text
from protolink_grpc.llms.loop_host import Observation
from protolink_grpc.llms.port import RUNTIME_KEY, ModelToolCall
from protolink_grpc.llms.prompt import data_block, escape_marks
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.json_value import JsonValue, from_json, to_json
from protolink_grpc.models.media import Media, split_result

_MAX_REPEATED_CHARS = 4000
"""The length to which an invalid answer is cut when it is sent back to the model, so that long answers do not fill the prompt."""


class Transcript:
    """Collects the messages of an inference.

    Args:
        window: Gets all messages; must be empty.
        history: The conversation before. System messages are left out, because instructions are passed separately.
        data: Data blocks before the query; not stored.
        media: The files of the query.
    """

    __slots__ = ("_window", "turn")

    def __init__(
        self,
        window: ContextWindow,
        *,
        history: Sequence[LLMMessage],
        data: str,
        query: str,
        media: Sequence[Media] = (),
    ) -> None:
        self._window = window
        query_message = LLMMessage("user", query, media=tuple(media))
        self.turn = [query_message]
        window.add_history(message for message in history if message.role != "system")
        if data:
            window.pin(LLMMessage("user", data, metadata={RUNTIME_KEY: "data"}), is_rendered=True)
        window.pin(query_message)

    def add_calls(
        self, call_id: str, calls: Sequence[ModelToolCall], thought: str, files: Sequence[Media] = ()
    ) -> None:
        """Add an answer of the model that requests calls, with the files in it. Reads of shortened results are not stored.

        Args:
            call_id: The id of the model call.
        """
        self._window.begin_round()
        self._window.add(_calls_message(calls, thought, files), call_id=call_id)
        stored = [call for call in calls if call.name != READ_ARTIFACT]
        if stored or files:
            self.turn.append(_calls_message(stored, thought, files))

    def add_result(self, call: ModelToolCall, text: str, media: Sequence[Media] = ()) -> None:
        """Add the result of a call, with the files in it."""
        message = LLMMessage("tool", text, tool_name=call.name, tool_call_id=call.call_id, media=tuple(media))
        is_read = call.name == READ_ARTIFACT
        self._window.add(message, is_read=is_read)
        if not is_read:
            self.turn.append(message)

    def add_correction(self, call_id: str, answer: str, feedback: str, files: Sequence[Media] = ()) -> None:
        """Add an invalid answer, the files in it, and the feedback to the prompt. None of them is stored."""
        self._window.begin_round()
        # Providers refuse an empty message.
        text = answer[:_MAX_REPEATED_CHARS] or ("(only files)" if files else "(no answer)")
        shown = LLMMessage("assistant", text, media=tuple(files))
        self._window.add(shown, call_id=call_id, is_rendered=True, cut=answer[_MAX_REPEATED_CHARS:])
        # The feedback may quote names and values from callers and peers.
        self._window.add(LLMMessage("user", feedback, metadata={RUNTIME_KEY: "correction"}))

    def add_note(self, text: str) -> None:
        """Add a note of the loop to the prompt. It is not stored."""
        self._window.add(LLMMessage("user", text, metadata={RUNTIME_KEY: "note"}))

    def finish(self, text: str, files: Sequence[Media] = ()) -> list[LLMMessage]:
        """Add the final answer with its files and return the turn."""
        self.turn.append(LLMMessage("assistant", text, media=tuple(files)))
        return self.turn


def render_observation(observation: Observation) -> tuple[str, Sequence[Media]]:
    """Return the outcome of a call as JSON for the model, and the files in it."""
    if observation.status != "ok":
        return to_json({"status": observation.status, **(observation.error or {})}), ()
    content, media = split_result(observation.content)
    return to_json(content), media


def render_message(message: LLMMessage, *, native: bool) -> LLMMessage:
    """Render a message for the model."""
    if not native and message.role != "user":
        return _render_for_contract(message)
    text = escape_marks(message.content)
    return inline_text(message if text == message.content else replace(message, content=text))


def _calls_message(calls: Sequence[ModelToolCall], thought: str, files: Sequence[Media]) -> LLMMessage:
    tool_calls = [{"id": call.call_id, "name": call.name, "arguments": call.arguments} for call in calls]
    return LLMMessage("assistant", thought, tool_calls=tool_calls, media=tuple(files))


def _render_for_contract(message: LLMMessage) -> LLMMessage:
    """Render a message for a model under the JSON contract."""
    if message.role == "tool":
        result = {"tool": message.tool_name, "result": _parse_or_text(message.content)}
        text = f"Result of your action:\n{data_block('result', [result])}"
        facts = {RUNTIME_KEY: "observation"}
        return LLMMessage("user", text, metadata=facts, tool_call_id=message.tool_call_id, media=message.media)
    if not message.tool_calls:
        text = to_json({"type": "final", "content": message.content})
    else:
        text = "\n".join(action_text(_to_call(each)) for each in message.tool_calls)
    return LLMMessage("assistant", text, media=message.media)


def _to_call(stored: dict[str, object]) -> ModelToolCall:
    name, arguments = stored.get("name"), stored.get("arguments")
    return ModelToolCall(str(name), arguments if isinstance(arguments, dict) else {})


def _parse_or_text(content: str) -> JsonValue:
    try:
        return from_json(content)
    except InvalidArgumentError:  # a tool message that the application wrote itself
        return content
