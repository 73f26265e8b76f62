"""LLM: the base class of language models. Providers implement `generate`; everything else is common."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, overload

from protolink_grpc.errors import InvalidArgumentError, ModelError
from protolink_grpc.llms.context_policy import ContextSetting, context_policy_of
from protolink_grpc.llms.direct import AgentCallback, AnyTool, DirectLoopHost, EventCallback
from protolink_grpc.llms.input_media import Refusal
from protolink_grpc.llms.loop import Inference
from protolink_grpc.llms.loop_host import InferenceRequest, InferSettings
from protolink_grpc.llms.port import ModelItem, ModelRequest, ModelResponse
from protolink_grpc.llms.prices import ModelPrice
from protolink_grpc.llms.profile import LLMModelProfile
from protolink_grpc.llms.prompt import build_summary_prompt
from protolink_grpc.llms.sync_llm import SyncLLM
from protolink_grpc.models.arguments import checks_arguments
from protolink_grpc.models.card import AgentCard
from protolink_grpc.models.context import RunContext
from protolink_grpc.models.conversation import (
    ConversationHistory,
    HistoryCompactionRequest,
    HistoryCompactionResult,
    LLMMessage,
    compact_recent,
    compact_tokens,
    split_for_summary,
)
from protolink_grpc.models.ids import new_call_id
from protolink_grpc.models.json_schema import OutputType, SchemaLike, json_schema_of
from protolink_grpc.models.json_text import strip_thinking
from protolink_grpc.models.json_value import JsonValue
from protolink_grpc.models.media import Media
from protolink_grpc.models.part import Part

T = TypeVar("T")


@checks_arguments
class LLM(ABC):
    """A model of one provider, with its own conversation for use without an agent.

    Args:
        provider: Short name, for instance `openai`.
        model: The provider's name of the model.

    Attributes:
        profile: Facts about the model: context window, prices, token counts.
        requested_provider, requested_model: Set by a subclass that selects the model itself, for instance a router: what it was
            asked for, if it is not `provider` and `model`. They are in the log of each call.
    """

    native_tools: bool = False
    requested_provider: str = ""
    requested_model: str = ""

    def __init__(self, provider: str, model: str) -> None:
        self.provider = provider
        self.model = model
        self.profile = LLMModelProfile()
        self._history = ConversationHistory()

    @abstractmethod
    def generate(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        """As `llms.port.LanguageModel.generate`."""

    async def find_price(self) -> ModelPrice | None:
        """Return the price of the model: that of the profile if it has one, otherwise None. Providers may know more prices."""
        return self.profile if self.profile.has_price else None

    async def find_media_refusal(self) -> Refusal | None:
        """Return a function that returns why the adapter cannot send a file; None if it sends all files."""
        return None

    async def open(self) -> None:  # noqa: B027 -- a model without packages and connections has nothing to prepare
        """Prepare calls on the running event loop without network access: load packages, create clients.

        Agents call it when they start, before they accept requests. Without it, the first call prepares itself.
        """

    async def aclose(self) -> None:  # noqa: B027 -- a model without connections has nothing to close
        """Close the connections of the running event loop. The next call opens new ones."""

    @property
    def history(self) -> ConversationHistory:
        """The conversation that `infer` continues by default. Agents store theirs in their state."""
        return self._history

    @property
    def sync(self) -> SyncLLM:
        """The same methods, blocking, for code without an event loop."""
        return SyncLLM(self)

    def configure_metrics(self, profile: LLMModelProfile | None = None, **fields: Any) -> LLMModelProfile:
        """Set facts about the model: a whole profile, or some fields of the current one."""
        self.profile = replace(profile or self.profile, **fields)
        return self.profile

    @overload
    async def infer(
        self,
        query: str,
        tools: Mapping[str, AnyTool] | None = None,
        *,
        output_type: type[T],
        agent_callback: AgentCallback | None = None,
        agent_cards: Sequence[AgentCard] = (),
        streaming: bool = False,
        event_callback: EventCallback | None = None,
        run_context: RunContext | None = None,
        history: ConversationHistory | None = None,
        instructions: str = "",
        flow_prompt: str = "",
        settings: InferSettings | None = None,
        media: Sequence[Part] = (),
        context_policy: ContextSetting = "auto",
    ) -> T: ...
    @overload
    async def infer(
        self,
        query: str,
        tools: Mapping[str, AnyTool] | None = None,
        *,
        output_type: None = None,
        agent_callback: AgentCallback | None = None,
        agent_cards: Sequence[AgentCard] = (),
        streaming: bool = False,
        event_callback: EventCallback | None = None,
        run_context: RunContext | None = None,
        history: ConversationHistory | None = None,
        output_schema: SchemaLike | None = None,
        instructions: str = "",
        flow_prompt: str = "",
        settings: InferSettings | None = None,
        media: Sequence[Part] = (),
        context_policy: ContextSetting = "auto",
    ) -> JsonValue: ...
    @overload
    async def infer(
        self,
        query: str,
        tools: Mapping[str, AnyTool] | None = None,
        *,
        output_type: Any,
        agent_callback: AgentCallback | None = None,
        agent_cards: Sequence[AgentCard] = (),
        streaming: bool = False,
        event_callback: EventCallback | None = None,
        run_context: RunContext | None = None,
        history: ConversationHistory | None = None,
        instructions: str = "",
        flow_prompt: str = "",
        settings: InferSettings | None = None,
        media: Sequence[Part] = (),
        context_policy: ContextSetting = "auto",
    ) -> Any: ...
    async def infer(
        self,
        query: str,
        tools: Mapping[str, AnyTool] | None = None,
        *,
        output_type: Any = None,
        agent_callback: AgentCallback | None = None,
        agent_cards: Sequence[AgentCard] = (),
        streaming: bool = False,
        event_callback: EventCallback | None = None,
        run_context: RunContext | None = None,
        history: ConversationHistory | None = None,
        output_schema: SchemaLike | None = None,
        instructions: str = "",
        flow_prompt: str = "",
        settings: InferSettings | None = None,
        media: Sequence[Part] = (),
        context_policy: ContextSetting = "auto",
    ) -> Any:
        """Answer a question with tools and agents, without an agent, and therefore without policy, approvals and log.

        A successful turn is added to the conversation. A failed one does not change it.

        Args:
            tools: Tools or functions by name.
            agent_callback: Called for each delegation; without it the model cannot delegate.
            agent_cards: The agents for delegation.
            streaming: Also pass the text of the answer while it is produced, as `llm_chunk`.
            event_callback: Called with dicts of the types `llm_step`, `context_prepared`, `llm_call_started`, `llm_chunk`,
                `llm_call_completed`, `llm_files`, `llm_action`, `tool_start`, `tool_result`, `llm_parse_error`, `llm_retry`,
                `context_compacted`, `budget_warning`, `budget_exceeded` and `llm_final`.
            run_context: Its budget is enforced. Without a limit of steps, the loop ends after `DEFAULT_MAX_STEPS`.
            history: The conversation to continue; by default `self.history`. System messages in it are instructions.
            output_type: The type of the answer, as in `AgentClient.ask`; the result is an instance of it. An answer that the type
                refuses, for instance because of a validator, is corrected by the model. `str` means text.
            output_schema: Instead of a type, the JSON Schema of the answer, or a type with one. The result is a JSON value. The
                model gets it as data.
            instructions: The system prompt, before that of the history.
            flow_prompt: Further system prompt: the position of this question in a flow.
            media: Files for the model, for example `Part.image(data)`. Files that the model writes are in the last messages of the
                conversation (`LLMMessage.media`).
            context_policy: Limits of the prompt; by default those of the model's context window. None means no limits.

        Returns:
            The answer: text, an instance of `output_type`, or a JSON value that satisfies `output_schema`.

        Raises:
            InvalidArgumentError: No JSON Schema can describe `output_type`, or `output_schema` is given, too. Or a part of
                `media` is not a file.
            ProtolinkError: As `Inference.run`.
        """
        files = [_to_media(part, index) for index, part in enumerate(media)]
        if output_type is not None and output_schema is not None:
            raise InvalidArgumentError("has the same meaning as output_schema; give one of them", field="output_type")
        output = None if output_type in (None, str) else OutputType[Any](output_type)
        schema = None if output_schema is None else json_schema_of(output_schema, field="output_schema")
        conversation = self._history if history is None else history
        before = conversation.messages
        instruction_texts = [instructions, *(message.content for message in before if message.role == "system")]
        context = run_context or RunContext()
        host = DirectLoopHost(context, tools or {}, agent_callback, event_callback, streaming=streaming)
        try:
            request = InferenceRequest(
                new_call_id(),
                query,
                "\n\n".join(text for text in instruction_texts if text),
                before,
                host.specs,
                agent_cards if agent_callback else (),
                schema if output is None else output.schema,
                context,
                flow_prompt=flow_prompt,
                output_type=output,
                settings=settings or InferSettings(),
                media=files,
                context_policy=context_policy_of(context_policy),
            )
            result = await Inference(self, request, host).run()
            await host.report_final(result)
        finally:
            await host.aclose()
        conversation.extend(result.messages)
        return result.content if output is None else output.convert(result.content)

    async def compact_history(
        self,
        request: HistoryCompactionRequest | None = None,
        *,
        history: ConversationHistory | None = None,
        **fields: Any,
    ) -> HistoryCompactionResult:
        """Compact a conversation, by default `self.history`. `fields` are those of a HistoryCompactionRequest.

        Messages that are added while a summary is created are kept.

        Raises:
            InvalidArgumentError: A field is invalid; names it.
            ModelError: The model returned no summary. Nothing has changed.
        """
        options = replace(request, **fields) if request else HistoryCompactionRequest(**fields)
        conversation = self._history if history is None else history
        before = conversation.messages
        count = self.profile.estimate_tokens
        match options.strategy:
            case "recent":
                after = compact_recent(before, options.max_messages)
            case "tokens":
                after = compact_tokens(before, options.max_tokens, count)
            case "summary":
                split = split_for_summary(before, options.preserve_recent)
                after = (
                    split.joined(await self.summarize(split.older, options.summary_max_tokens))
                    if split.older
                    else before
                )
        now = conversation.messages
        if [id(each) for each in now[: len(before)]] != [id(each) for each in before]:
            after, now = before, before  # another compaction or a reset was faster and is kept
        else:
            conversation.replace([*after, *now[len(before) :]])
        return HistoryCompactionResult.of(options.strategy, before, after, count)

    async def summarize(self, messages: Sequence[LLMMessage], max_tokens: int = 512) -> str:
        """Summarize a conversation with one call of the model, without further context.

        Raises:
            ModelError: The provider failed, or the answer is empty.
        """
        response = await _read_response(self.generate(build_summary_prompt(messages, max_tokens)))
        summary = strip_thinking(response.text)
        if not summary:
            raise ModelError("the model gave no summary")
        return summary


def _to_media(part: Part, index: int) -> Media:
    media = Media.of_part(part, f"media[{index}]")
    if media is None:
        raise InvalidArgumentError("must be a file, such as Part.image(data)", field=f"media[{index}]")
    return media


async def _read_response(items: AsyncIterator[ModelItem]) -> ModelResponse:
    response: ModelResponse | None = None
    async for item in items:
        response = item if isinstance(item, ModelResponse) else response
    if response is None:
        raise ModelError("the model ended its answer without completing it")
    return response
