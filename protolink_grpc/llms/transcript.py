"""The conversation of one inference, twice: as the model reads it, and as it is kept for later turns. Nothing here is decided.

What is kept has one form, whatever the model: calls as `tool_calls`, their results in the role `tool`. A model without native
tool calls reads the same as the JSON of its contract, and results as data blocks in the role of the user. Neither form ever gives
the words of a caller, a tool or a peer the role of the system, and none of these words can imitate the marks of a data block.
"""

from collections.abc import Sequence
from dataclasses import replace

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.llms.answers import action_text
from protolink_grpc.llms.loop_host import Observation
from protolink_grpc.llms.manifest import ContextMeter
from protolink_grpc.llms.port import ModelToolCall
from protolink_grpc.llms.prompt import data_block, escape_marks
from protolink_grpc.models.conversation import LLMMessage
from protolink_grpc.models.json_value import JsonValue, from_json, to_json

RUNTIME_KEY = "runtime"
"""In the metadata of messages that the loop writes in the user's role: `data`, `observation`, `correction` or `note`."""

_MAX_REPEATED_CHARS = 4000
"""How much of an answer that could not be read the model sees again; a model that ran away must not fill its own prompt."""


class Transcript:
    """Grows with the inference; each message is rendered once.

    Args:
        history: The conversation before; its system messages are left out, for instructions travel apart from it.
        data: Data blocks that go before the question; not kept.
    """

    __slots__ = ("_meter", "_native", "prompt", "turn")

    def __init__(
        self, *, native: bool, history: Sequence[LLMMessage], data: str, query: str, meter: ContextMeter
    ) -> None:
        self._native = native
        self._meter = meter
        asked = LLMMessage("user", query)
        self.turn = [asked]
        before = [message for message in history if message.role != "system"]
        self.prompt = [self._shown(message) for message in before]
        if data:
            self.prompt.append(LLMMessage("user", data, metadata={RUNTIME_KEY: "data"}))
        self.prompt.append(self._shown(asked))

    def asked(self, calls: Sequence[ModelToolCall], thought: str) -> None:
        """The model wants these."""
        wanted = [{"id": call.call_id, "name": call.name, "arguments": call.arguments} for call in calls]
        self._keep(LLMMessage("assistant", thought, tool_calls=wanted))

    def observed(self, call: ModelToolCall, observation: Observation) -> str:
        """What came of one of them; the text that is kept."""
        if observation.status == "ok":
            text = to_json(observation.content)
        else:
            text = to_json({"status": observation.status, **(observation.error or {})})
        self._keep(LLMMessage("tool", text, tool_name=call.name, tool_call_id=call.call_id))
        return text

    def corrected(self, said: str, feedback: str) -> None:
        """The model's answer could not be used; the turn that is kept does not mention it."""
        # Providers refuse an empty message.
        self._show(LLMMessage("assistant", said[:_MAX_REPEATED_CHARS] or "(no answer)"))
        # It may quote names and values of others.
        self._show(self._shown(LLMMessage("user", feedback, metadata={RUNTIME_KEY: "correction"})))

    def noted(self, text: str) -> None:
        """Something that the model should know of how it goes on."""
        self._show(LLMMessage("user", text, metadata={RUNTIME_KEY: "note"}))

    def finished(self, text: str) -> list[LLMMessage]:
        """The turn, now that `text` is the answer."""
        self.turn.append(LLMMessage("assistant", text))
        return self.turn

    def _keep(self, message: LLMMessage) -> None:
        self.turn.append(message)
        self._show(self._shown(message))

    def _shown(self, message: LLMMessage) -> LLMMessage:
        """A message as the model reads it."""
        if not self._native and message.role != "user":
            return _contract_form(message)
        text = escape_marks(message.content)
        return message if text == message.content else replace(message, content=text)

    def _show(self, message: LLMMessage) -> None:
        self.prompt.append(message)
        self._meter.add(message)


def _contract_form(message: LLMMessage) -> LLMMessage:
    """A message of a native conversation as a model under the JSON contract reads it."""
    if message.role == "tool":
        result = {"tool": message.tool_name, "result": _value(message.content)}
        text = f"Result of your action:\n{data_block('result', [result])}"
        return LLMMessage("user", text, metadata={RUNTIME_KEY: "observation"})
    if not message.tool_calls:
        return LLMMessage("assistant", to_json({"type": "final", "content": message.content}))
    return LLMMessage("assistant", "\n".join(action_text(_call(each)) for each in message.tool_calls))


def _call(kept: dict[str, object]) -> ModelToolCall:
    name, arguments = kept.get("name"), kept.get("arguments")
    return ModelToolCall(str(name), arguments if isinstance(arguments, dict) else {})


def _value(content: str) -> JsonValue:
    try:
        return from_json(content)
    except InvalidArgumentError:  # a tool's message that the application wrote
        return content
