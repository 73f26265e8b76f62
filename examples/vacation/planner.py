"""The planner: an offline model that follows rules, without state between calls.

It answers like any model, with streamed text and at most one call. The same conversation always has the same answer, so a run
that is resumed after a crash takes the same steps.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from protolink_grpc import LLM, LLMMessage
from protolink_grpc.llms import ModelRequest, ModelResponse, ModelToolCall, ModelUsage, TextChunk
from protolink_grpc.llms.answers import AGENT_TOOL

SOLD_OUT = "sold_out"


@dataclass(frozen=True, slots=True)
class Move:
    """The planner's text and the call that it requests. Without a call, the text is the answer."""

    text: str
    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Told:
    """The result of one call. `tool` is a tool of the agent itself, or `agent.tool`; exactly one of the other fields is set."""

    tool: str
    arguments: dict[str, Any]
    result: Any = None
    refusal: dict[str, Any] | None = None


class Planner(LLM):
    """Plans trips with the agents and tools of the mesh.

    Args:
        pace_s: Seconds between two words, so that users can follow the text.
    """

    native_tools = True

    def __init__(self, pace_s: float = 0.0) -> None:
        super().__init__("vacation", "planner")
        self._pace_s = pace_s
        self.configure_metrics(input_cost_per_million=0.0, output_cost_per_million=0.0)

    async def generate(self, request: ModelRequest) -> AsyncIterator[TextChunk | ModelResponse]:
        """As `LanguageModel.generate`."""
        move = next_move(*read(request.messages))
        for word in re.findall(r"\S+\s*", move.text):
            yield TextChunk(word)
            await asyncio.sleep(self._pace_s)
        call = _call(move, len(request.messages))
        count = self.profile.estimate_tokens
        asked = count(request.system + "".join(message.content for message in request.messages))
        usage = ModelUsage(asked, count(move.text + json.dumps(call.arguments if call else {})))
        yield ModelResponse(move.text, (call,) if call else (), usage, "tool_calls" if call else "stop", self.model)


def read(messages: Sequence[LLMMessage]) -> tuple[dict[str, Any], list[Told]]:
    """Read the trip (the JSON in the latest question) and the results of the calls since then."""
    asked = max(index for index, message in enumerate(messages) if message.role == "user" and "{" in message.content)
    # The message contains the list of peers before the question.
    question = messages[asked].content.rpartition("</plgrpc-data>")[2]
    wish: dict[str, Any] = json.loads(question[question.index("{") :])
    calls = {call["id"]: call for message in messages[asked:] for call in message.tool_calls or ()}
    answers = [message for message in messages[asked:] if message.role == "tool"]
    return wish, [_told(calls[answer.tool_call_id], json.loads(answer.content)) for answer in answers]


def _told(call: dict[str, Any], answer: Any) -> Told:
    arguments, tool = call["arguments"], call["name"]
    if tool == AGENT_TOOL:
        tool, arguments = f"{arguments['agent']}.{arguments['tool']}", arguments["args"]
    refused = isinstance(answer, dict) and answer.get("status") in ("rejected", "failed")
    return Told(tool, arguments, refusal=answer) if refused else Told(tool, arguments, answer)


def _call(move: Move, base: int) -> ModelToolCall | None:
    """The call of a move. Its id depends on the length of the conversation, so it is unique there, and the same in a repetition."""
    if not move.tool:
        return None
    agent, _, tool = move.tool.rpartition(".")
    if not agent:
        return ModelToolCall(tool, move.arguments, f"call_{base}")
    return ModelToolCall(AGENT_TOOL, {"agent": agent, "tool": tool, "args": move.arguments}, f"call_{base}")


# -- Plan ----------------------------------------------------------------------------------------------------------------


def next_move(wish: dict[str, Any], told: Sequence[Told]) -> Move:
    """The next step: find a date, get the forecast, find rooms, rank them, book."""
    last = told[-1].refusal if told else None
    if last is not None and last.get("code") != SOLD_OUT:
        return Move(f"This trip cannot be booked: {last.get('message', 'it was refused')}.")
    known = {each.tool: each.result for each in told if each.refusal is None}
    place, guests = wish["to"], wish["guests"]
    start = wish["start"] or known.get("weather.best_start")
    if start is None:
        asked = {"destination": place, "earliest": wish["earliest"]}
        return Move(f"First of all: when is the weather in {place} good?", "weather.best_start", asked)
    stay = {"destination": place, "start": start, "nights": wish["nights"]}
    forecast, search = known.get("weather.forecast"), known.get("hotel.offers")
    if forecast is None:
        return Move(f"What will the weather be like from {start}?", "weather.forecast", stay)
    if search is None:
        room = stay | {"guests": guests} | ({"budget": wish["budget"]} if wish["budget"] else {})
        return Move(f"The weather fits {forecast['fit']} of 100. Which hotels have room?", "hotel.offers", room)
    return _choose(wish, start, forecast, search, known, told)


def _choose(
    wish: dict[str, Any],
    start: str,
    forecast: dict[str, Any],
    search: dict[str, Any],
    known: dict[str, Any],
    told: Sequence[Told],
) -> Move:
    offers = search["offers"]
    if not offers:
        return Move(_why_nothing(wish, search["cheapest"]))
    advice, booking = known.get("advisor.advise"), known.get("book")
    if advice is None:
        asked = {"weather": forecast, "offers": offers}
        return Move("The advisor knows which of them fits best.", "advisor.advise", asked)
    if booking is not None:
        return Move(
            f"Booked: {booking['hotel']} in {wish['to']} from {booking['start']}, reference {booking['reference']}, for "
            f"EUR {booking['total']:,.2f}. {advice['weather']}"
        )
    taken = {each.arguments["hotel"] for each in told if each.tool == "book"}
    best = next((each for each in advice["ranking"] if each["hotel"] not in taken), None)
    if best is None:
        return Move("Every hotel that fits was sold out a moment ago.")
    order = {"hotel": best["hotel"], "start": start, "nights": wish["nights"], "guests": wish["guests"]}
    said = "Somebody was faster; the next best is" if taken else "The best one is"
    return Move(f"{said} {best['hotel']}: {best['because']}.", "book", order | {"at_most": best["total"]})


def _why_nothing(wish: dict[str, Any], cheapest: float | None) -> str:
    if cheapest is None:
        return f"No hotel in {wish['to']} has room for {wish['guests']} on these nights."
    return f"EUR {wish['budget']:,.0f} is too little: the cheapest hotel in {wish['to']} costs EUR {cheapest:,.2f} for this stay."
