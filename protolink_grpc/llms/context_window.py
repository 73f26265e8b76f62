"""The messages that a model gets in one inference, within the limits of a ContextPolicy.

Theory of operation. The messages are in groups: the turns of the history, and the rounds of this inference (an answer of the model
with the results of its calls, or with the feedback to it). A group is removed as a whole, so a call and its result stay together.
The data blocks, the query and the latest round are never removed. A tool result can be shortened: its complete text stays in the
log or in the conversation's storage, and in this process, where the model can read it with `read_context_artifact`.

Before a model call, `fit` decides which results are shortened and which groups are removed. The decision depends on token counts
and perhaps on a summary of a model, so it is an event, and a repeated attempt takes it from the log. Everything else depends only
on answers and results.
"""

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from protolink_grpc.errors import ContextLimitError, ModelError
from protolink_grpc.llms.context_artifacts import ContextArtifacts
from protolink_grpc.llms.context_policy import ContextLimits, ContextPolicy
from protolink_grpc.llms.input_media import Refusal
from protolink_grpc.llms.loop_host import LoopHost, Observation
from protolink_grpc.llms.manifest import CONTEXT_WINDOW, TOO_LARGE, UNSUPPORTED, ContextMeter, profile_of
from protolink_grpc.llms.port import RUNTIME_KEY, LanguageModel, ModelRequest, ToolSpec
from protolink_grpc.logs import get_logger
from protolink_grpc.models.action import MAX_OMITTED, OmittedContext, OmittedItems
from protolink_grpc.models.conversation import LLMMessage, summary_message
from protolink_grpc.models.events import ContextCompacted

log = get_logger(__name__)

GOAL = 0.8
"""Turns are removed until the prompt has this share of its limit, so that not every step removes one. A prompt that keeps its
beginning is cheaper at providers with a cache."""

PREVIEW_CHARS = 200
"""The beginning of an older result that is kept if the prompt is too large."""

LISTED_GROUPS = 20
"""Number of removed turns, and of removed rounds, that are listed as omissions, the newest ones: each change repeats the list."""

Summarize = Callable[[int, str, Sequence[LLMMessage], int], Awaitable[str]]
"""Summarizes messages in a model call: `step, call_id, messages, max_tokens`. Raises ModelError or ContextLimitError."""


@dataclass(slots=True)
class _Entry:
    """One message of the prompt.

    Args:
        shown: The message as the model gets it.
        id: The id of the message before it was rendered; of an answer in this inference, the id of its call.
        is_history: It is from an earlier turn.
        complete: Of a tool result: the message with the complete result.
        name: Of a tool result: its name as an artifact.
        is_read: It is the result of `read_context_artifact`.
        kept: Of a shortened result: the characters that are shown.
        saved: Tokens of the message that are left out.
        is_too_large: It was shortened only because it alone is longer than the policy allows.
    """

    shown: LLMMessage
    tokens: int
    id: str
    is_history: bool
    complete: LLMMessage | None = None
    name: str = ""
    is_read: bool = False
    kept: int | None = None
    saved: int = 0
    is_too_large: bool = False


@dataclass(slots=True)
class _Decision:
    """The changes of one decision, as its event describes them.

    Args:
        first_message: Id of the first message of the history that stays; "" if none stays; None if the history is unchanged.
        rounds: Number of rounds of this inference that were removed until now.
        shortened: Characters that are shown of shortened results, by name.
        too_large: Names of those that are longer than the policy allows for one result.
        refused: Tokens of a prompt that the provider refused, estimated; 0 if it did not.
    """

    first_message: str | None = None
    rounds: int = 0
    shortened: dict[str, int] = field(default_factory=dict)
    too_large: list[str] = field(default_factory=list)
    refused: int = 0
    removed: list[_Entry] = field(default_factory=list)

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> "_Decision":
        first, shortened = metadata.get("first_message"), metadata.get("shortened") or {}
        too_large = list(metadata.get("too_large") or ())
        return cls(first, int(metadata.get("rounds", 0)), shortened, too_large, int(metadata.get("refused_tokens", 0)))

    def to_metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = {"removed_messages": len(self.removed), "rounds": self.rounds}
        if self.first_message is not None:
            found["first_message"] = self.first_message
        if self.shortened:
            found["shortened"] = self.shortened
        if self.too_large:
            found["too_large"] = self.too_large
        return found | ({"refused_tokens": self.refused} if self.refused else {})


class _RemovedGroups:
    """Groups of one kind that were removed from the prompt: how many, and the newest `LISTED_GROUPS` of them."""

    __slots__ = ("count", "newest")

    def __init__(self) -> None:
        self.count = 0
        self.newest: deque[OmittedContext] = deque(maxlen=LISTED_GROUPS)

    def add(self, kind: str, ref: str, group: Sequence[_Entry]) -> None:
        self.count += 1
        tokens = sum(entry.tokens + entry.saved for entry in group)
        self.newest.append(OmittedContext(kind, ref, CONTEXT_WINDOW, tokens))


class ContextWindow:
    """The conversation of one inference as the model gets it.

    Args:
        policy: None means no limits.
        meter: Counts the prompt; its history and turn are set here.
        render: Renders a message for the model.
        summarize: Called if the policy has summaries.
        max_output_tokens: Maximum length of an answer, if it is limited.
    """

    def __init__(
        self,
        model: LanguageModel,
        policy: ContextPolicy | None,
        host: LoopHost,
        *,
        meter: ContextMeter,
        render: Callable[[LLMMessage], LLMMessage],
        summarize: Summarize,
        max_output_tokens: int | None = None,
    ) -> None:
        self._model = model
        self._policy = policy or ContextPolicy()
        self._is_limited = policy is not None
        self._host = host
        self._meter = meter
        self._render = render
        self._summarize = summarize
        self._max_output_tokens = max_output_tokens
        self._summary: _Entry | None = None
        self._turns: list[list[_Entry]] = []
        self._pinned: list[LLMMessage] = []
        self._rounds: list[list[_Entry]] = []
        self._removed_turns, self._removed_rounds = _RemovedGroups(), _RemovedGroups()
        self._results: dict[str, _Entry] = {}
        self._names: Counter[str] = Counter()
        self._artifacts = ContextArtifacts(
            self._policy.max_artifacts, self._policy.artifact_max_chars, native=model.native_tools
        )
        self._decisions = 0
        self._refused = 0

    # The content of the prompt

    @property
    def messages(self) -> tuple[LLMMessage, ...]:
        """The messages for the next call, oldest first."""
        summary = [] if self._summary is None else [self._summary.shown]
        turns, rounds = ([entry.shown for group in groups for entry in group] for groups in (self._turns, self._rounds))
        return (*summary, *turns, *self._pinned, *rounds)

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools for the next call beside those of the inference."""
        return self._artifacts.tools

    @property
    def has_artifacts(self) -> bool:
        """Whether the model can call `read_context_artifact`."""
        return not self._artifacts.is_empty

    def add_history(self, messages: Iterable[LLMMessage]) -> None:
        """Add the conversation before this inference. A turn begins with a message of the user."""
        for message in messages:
            if message.role == "user" or not self._turns:
                self._turns.append([])
            entry = self._build_entry(message, is_history=True)
            self._turns[-1].append(entry)
            self._meter.history_tokens += entry.tokens
            self._meter.last_message = message.id

    def pin(self, message: LLMMessage, *, is_rendered: bool = False) -> None:
        """Add a message that is never removed: data blocks, or the query. Its tokens are in the meter already."""
        self._pinned.append(message if is_rendered else self._render(message))

    def begin_round(self) -> None:
        """Begin a group of messages that stay together. The first one is an answer of the model."""
        self._rounds.append([])

    def add(
        self,
        message: LLMMessage,
        *,
        call_id: str = "",
        is_rendered: bool = False,
        is_read: bool = False,
        cut: str = "",
    ) -> None:
        """Add a message to the current round.

        Args:
            call_id: Of an answer of the model: the id of its call.
            cut: The part of its text that the message does not have.
        """
        entry = self._build_entry(message, is_history=False, is_rendered=is_rendered)
        entry.id, entry.is_read = call_id or entry.id, is_read
        if cut:
            entry.saved = self._meter.count(replace(message, content=cut))
        self._rounds[-1].append(entry)
        self._meter.turn_tokens += entry.tokens
        self._meter.turn_messages += 1

    def _build_entry(self, message: LLMMessage, *, is_history: bool, is_rendered: bool = False) -> _Entry:
        shown = message if is_rendered else self._render(message)
        entry = _Entry(shown, self._meter.count(shown), message.id, is_history)
        if message.role == "tool":
            # Some providers use the same ids in several answers.
            known = message.tool_call_id or message.tool_name or "result"
            self._names[known] += 1
            entry.name = known if self._names[known] == 1 else f"{known}-{self._names[known]}"
            entry.complete = message
            self._results[entry.name] = entry
        return entry

    def omitted(
        self, given: Sequence[OmittedContext], removed: Sequence[OmittedContext], refuse: Refusal | None
    ) -> OmittedItems:
        """Return what the next prompt leaves out. Of removed turns and rounds, the newest `LISTED_GROUPS` are listed.

        Args:
            given: What is left out of the input of this inference.
            removed: What a hook has removed.
            refuse: Returns why the model does not take a file; None if it takes all files.
        """
        found = [*self._removed_turns.newest, *_omissions_of(self._turns, refuse), *given]
        found += [*self._removed_rounds.newest, *_omissions_of(self._rounds, refuse), *removed]
        unlisted = sum(each.count - len(each.newest) for each in (self._removed_turns, self._removed_rounds))
        return OmittedItems(tuple(found[-MAX_OMITTED:]), len(found) + unlisted)

    def read_artifact(self, arguments: Mapping[str, Any]) -> Observation:
        """Return the observation of a call of `read_context_artifact`."""
        return self._artifacts.read(arguments, self._limits().result_chars)

    def _is_too_large(self, name: str) -> bool:
        entry = self._results.get(name)
        return entry is not None and entry.is_too_large

    # The decisions

    async def fit(self, step: int, call_id: str, *, replayed: bool) -> None:
        """Reduce the prompt of a call to its limits: apply the decisions of an earlier attempt, then those of the policy.

        Args:
            replayed: The answer of the call is known, so there is nothing to decide.

        Raises:
            ContextLimitError: Even the smallest prompt does not fit.
        """
        self._decisions = 0
        while (event := self._host.decided(self._key(call_id))) is not None:
            if isinstance(event.payload, ContextCompacted):
                self._apply(_Decision.of(event.metadata), event.payload.summary)
            self._decisions += 1
        if replayed or not self._is_limited:
            return
        limits = self._limits()
        before, decision = self._meter.total, _Decision(rounds=self._removed_rounds.count)
        if limits.result_chars is not None:
            self._shorten_large_results(limits.result_chars, decision)
        if limits.prompt is not None and self._meter.total > (goal := self._goal(limits.prompt)):
            await self._reduce(step, call_id, goal, before, decision)
            if self._meter.total > limits.prompt:
                raise self._limit_error(limits.prompt, limits.window)
        elif decision.shortened:
            await self._report(call_id, before, decision, "")

    async def make_room(self, step: int, call_id: str, refused: ContextLimitError) -> None:
        """Reduce a prompt that the provider refused because of its length to about half of its size.

        Raises:
            ContextLimitError: `refused`, if nothing can be removed.
        """
        before = self._meter.total
        self._refused = before
        decision = _Decision(rounds=self._removed_rounds.count, refused=before)
        if self._is_limited:
            log.warning("the provider refused a prompt of about %d tokens, which is shortened: %s", before, refused)
            await self._reduce(step, call_id, before // 2, before, decision)
        if self._meter.total >= before:
            raise refused

    def check_size(self, request: ModelRequest) -> None:
        """Raise ContextLimitError if a prompt, which a hook has changed, does not fit."""
        limits = self._limits()
        if self._is_limited and limits.prompt is not None:
            tokens = self._meter.count_request(request)
            if tokens > limits.prompt:
                raise self._limit_error(limits.prompt, limits.window, tokens)

    def _limits(self) -> ContextLimits:
        limits = self._policy.limits(profile_of(self._model), self._max_output_tokens)
        if self._refused:
            most = max(self._refused - 1, 1)
            return replace(limits, prompt=most if limits.prompt is None else min(limits.prompt, most))
        return limits

    def _goal(self, limit: int) -> int:
        """Return the size to which a prompt is reduced if possible: clearly below a size that the provider refused."""
        return max(min(limit, self._refused * 9 // 10), 1) if self._refused else limit

    def _key(self, call_id: str) -> str:
        return f"{call_id}/context/{self._decisions}"

    async def _reduce(self, step: int, call_id: str, limit: int, before: int, decision: _Decision) -> None:
        """Shorten and remove until the prompt has at most `limit` tokens, or nothing is left to remove; record the result."""
        room = min(self._policy.summary_tokens, limit // 4)
        for reduce in (
            self._remove_old_turns,
            self._shorten_older_results,
            self._remove_turns,
            self._remove_rounds,
            self._shorten_latest_results,
        ):
            if self._meter.total > limit - room:
                reduce(limit - room, decision)
        summary = ""
        if room and decision.removed:
            summary = await self._summarize_removed(step, call_id, decision.removed, limit, room)
        if decision.removed or decision.shortened:
            await self._report(call_id, before, decision, summary)

    async def _report(self, call_id: str, before: int, decision: _Decision, summary: str) -> None:
        strategy = "summary" if summary else "tokens" if decision.removed else ""
        decision.too_large = [name for name in decision.shortened if self._is_too_large(name)]
        done = ContextCompacted(before, self._meter.total, strategy, summary)
        await self._host.report(done, metadata={"decision": self._key(call_id), **decision.to_metadata()})
        self._decisions += 1

    def _apply(self, decision: _Decision, summary: str) -> None:
        """Apply a recorded decision. Messages that are no longer in the history need no removal."""
        done = _Decision()
        self._refused = decision.refused or self._refused
        for name, chars in decision.shortened.items():
            if (entry := self._results.get(name)) is not None:
                self._shorten(entry, chars, done)
                entry.is_too_large = name in decision.too_large
        first = decision.first_message
        if first is not None:
            starts = [index for index, turn in enumerate(self._turns) if turn[0].id == first]
            for _ in range(starts[0] if starts else 0 if first else len(self._turns)):
                self._remove_turn(done)
        while self._removed_rounds.count < decision.rounds and self._rounds:
            self._remove_round(done)
        if summary:
            self._set_summary(summary, len(done.removed))

    # Reductions, in this order

    def _shorten_large_results(self, chars: int, decision: _Decision) -> None:
        """Shorten new results that are longer than the policy allows."""
        for entry in self._results.values():
            text = "" if entry.complete is None or entry.is_read or entry.kept is not None else entry.complete.content
            if len(text) > chars:
                self._shorten(entry, self._artifacts.preview_chars(entry.name, text, chars), decision)
                entry.is_too_large = True

    def _remove_old_turns(self, limit: int, decision: _Decision) -> None:
        """Remove the oldest turns, but none of the recent messages, and somewhat more than necessary."""
        left = sum(map(len, self._turns))
        while self._turns and self._meter.total > limit * GOAL:
            left -= len(self._turns[0])
            if left < self._policy.preserve_recent:
                return
            self._remove_turn(decision)

    def _shorten_older_results(self, limit: int, decision: _Decision) -> None:
        """Shorten the results of all groups except the latest round, oldest first."""
        self._shorten_results([*self._turns, *self._rounds[:-1]], PREVIEW_CHARS, limit, decision)

    def _remove_turns(self, limit: int, decision: _Decision) -> None:
        while self._turns and self._meter.total > limit:
            self._remove_turn(decision)

    def _remove_rounds(self, limit: int, decision: _Decision) -> None:
        while len(self._rounds) > 1 and self._meter.total > limit:
            self._remove_round(decision)

    def _shorten_latest_results(self, limit: int, decision: _Decision) -> None:
        for chars in (PREVIEW_CHARS, 0):
            self._shorten_results(self._rounds[-1:], chars, limit, decision)

    def _shorten_results(self, groups: Sequence[Sequence[_Entry]], chars: int, limit: int, decision: _Decision) -> None:
        for entry in (entry for group in groups for entry in group):
            if self._meter.total <= limit:
                return
            if entry.complete is not None and (entry.kept is None or entry.kept > chars):
                self._shorten(entry, chars, decision)

    # Changes of the content

    def _shorten(self, entry: _Entry, chars: int, decision: _Decision) -> None:
        """Show only the beginning of a result, unless this would not make it shorter."""
        complete = entry.complete
        if complete is None:
            return
        media = complete.media if chars > PREVIEW_CHARS else ()
        text = self._artifacts.preview(entry.name, complete.content, chars, without_files=media != complete.media)
        shown = self._render(replace(complete, content=text, media=media))
        saved = entry.tokens - self._meter.count(shown)
        if saved <= 0:
            return
        if entry.is_history:
            self._meter.history_tokens -= saved
        else:
            self._meter.turn_tokens -= saved
        entry.shown, entry.tokens, entry.kept = shown, entry.tokens - saved, chars
        entry.saved, entry.is_too_large = entry.saved + saved, False
        decision.shortened[entry.name] = chars
        self._artifacts.add(entry.name, complete.content)
        self._meter.set_artifact_tool(self.tools)

    def _remove_turn(self, decision: _Decision) -> None:
        removed = self._turns.pop(0)
        self._forget(removed)
        self._removed_turns.add("turn", removed[0].id, removed)
        self._meter.history_tokens -= sum(entry.tokens for entry in removed)
        decision.removed += removed
        decision.first_message = self._turns[0][0].id if self._turns else ""

    def _remove_round(self, decision: _Decision) -> None:
        removed = self._rounds.pop(0)
        self._forget(removed)
        self._removed_rounds.add("step", removed[0].id, removed)
        self._meter.turn_tokens -= sum(entry.tokens for entry in removed)
        self._meter.turn_messages -= len(removed)
        decision.removed += removed
        decision.rounds = self._removed_rounds.count

    def _forget(self, removed: Sequence[_Entry]) -> None:
        for entry in removed:
            self._results.pop(entry.name, None)

    # Summaries

    async def _summarize_removed(
        self, step: int, call_id: str, removed: Sequence[_Entry], limit: int, room: int
    ) -> str:
        """Replace the removed messages by a summary of at most `room` tokens. Return it; "" if the model gave none."""
        # A quarter of the limit is left for the instructions of the request.
        messages = self._messages_to_summarize(removed, limit * 3 // 4)
        if not messages:
            return ""
        try:
            text = await self._summarize(step, f"{self._key(call_id)}/summary", messages, room)
        except (ModelError, ContextLimitError) as error:
            log.warning("messages are removed from a prompt without a summary: %s", error)
            return ""
        summary = _cut(text, lambda shorter: self._meter.count(summary_message(shorter, 0)) <= room)
        self._set_summary(summary, len(removed))
        return summary

    def _messages_to_summarize(self, removed: Sequence[_Entry], limit: int) -> list[LLMMessage]:
        """Return the summary before, and the latest removed messages that have at most `limit` tokens with it.

        The oldest message that does not fit is cut, so that there is always something to summarize.
        """
        earlier = [] if self._summary is None else [self._summary.shown]
        left = limit - sum(map(self._meter.count_summarized, earlier))
        found: list[LLMMessage] = []
        for message in (entry.shown for entry in reversed(removed)):
            tokens = self._meter.count_summarized(message)
            if tokens > left:
                found += self._cut_message(message, left)
                break
            found.append(message)
            left -= tokens
        return [*earlier, *reversed(found)]

    def _cut_message(self, message: LLMMessage, tokens: int) -> list[LLMMessage]:
        """Return the message with the beginning of its text that has at most that many tokens; nothing if no text is left."""
        text = _cut(
            message.content,
            lambda shorter: self._meter.count_summarized(replace(message, content=shorter)) <= tokens,
        )
        return [replace(message, content=text)] if text else []

    def _set_summary(self, text: str, replaced: int) -> None:
        known = 0 if self._summary is None else self._summary.tokens
        message = self._render(summary_message(text, replaced))
        message.metadata[RUNTIME_KEY] = "summary"
        self._summary = _Entry(message, self._meter.count(message), message.id, is_history=True)
        self._meter.history_tokens += self._summary.tokens - known

    def _limit_error(self, limit: int, window: int | None, tokens: int | None = None) -> ContextLimitError:
        needed = self._meter.total if tokens is None else tokens
        of = f" of a window of {window} tokens" if window is not None and window != limit else ""
        return ContextLimitError(
            f"the prompt needs at least {needed} tokens, but only {limit}{of} are available; shorten the request, the system "
            "prompt or the descriptions of the tools, send fewer files, raise context_policy.max_tokens, or use a model with a "
            "larger context window",
            needed_tokens=str(needed),
            available_tokens=str(limit),
        )


def _omissions_of(groups: Iterable[Sequence[_Entry]], refuse: Refusal | None) -> Iterator[OmittedContext]:
    """Yield what messages of the prompt do not show: the rest of what is shortened, and files that the model does not take."""
    for entry in (entry for group in groups for entry in group):
        result = entry.complete
        ref = entry.id if result is None else result.tool_call_id or entry.id
        if entry.kept is not None:
            yield OmittedContext("tool_result", ref, TOO_LARGE if entry.is_too_large else CONTEXT_WINDOW, entry.saved)
        elif entry.saved:
            yield OmittedContext("message", ref, TOO_LARGE, entry.saved)
        for media in entry.shown.media:
            if refuse is not None and refuse(media):
                yield OmittedContext("file", ref, UNSUPPORTED, media.estimated_tokens)


def _cut(text: str, fits: Callable[[str], bool]) -> str:
    """Return the beginning of a text that fits; "" if none does."""
    while text and not fits(text):
        text = text[: len(text) * 9 // 10]
    return text
