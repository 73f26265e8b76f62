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
class CallResult:
    """The result of one call. `tool` is a tool of the agent itself, or `agent.tool`. `rejection` is set if the call failed."""

    tool: str
    arguments: dict[str, Any]
    result: Any = None
    rejection: dict[str, Any] | None = None


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
        input_tokens = count(request.system + "".join(message.content for message in request.messages))
        usage = ModelUsage(input_tokens, count(move.text + json.dumps(call.arguments if call else {})))
        yield ModelResponse(move.text, (call,) if call else (), usage, "tool_calls" if call else "stop", self.model)


def read(messages: Sequence[LLMMessage]) -> tuple[dict[str, Any], list[CallResult]]:
    """Return the trip (the JSON in the latest question) and the results of the calls since then."""
    last = max(index for index, message in enumerate(messages) if message.role == "user" and "{" in message.content)
    # The message contains the list of peers before the question.
    question = messages[last].content.rpartition("</plgrpc-data>")[2]
    trip: dict[str, Any] = json.loads(question[question.index("{") :])
    calls = {call["id"]: call for message in messages[last:] for call in message.tool_calls or ()}
    answers = [message for message in messages[last:] if message.role == "tool"]
    return trip, [_result_of(calls[answer.tool_call_id], json.loads(answer.content)) for answer in answers]


def _result_of(call: dict[str, Any], answer: Any) -> CallResult:
    arguments, tool = call["arguments"], call["name"]
    if tool == AGENT_TOOL:
        tool, arguments = f"{arguments['agent']}.{arguments['tool']}", arguments["args"]
    is_rejected = isinstance(answer, dict) and answer.get("status") in ("rejected", "failed")
    return CallResult(tool, arguments, rejection=answer) if is_rejected else CallResult(tool, arguments, answer)


def _call(move: Move, base: int) -> ModelToolCall | None:
    """Return the call of a move. Its id contains the length of the conversation: it is unique, and the same in a repetition."""
    if not move.tool:
        return None
    agent, _, tool = move.tool.rpartition(".")
    if not agent:
        return ModelToolCall(tool, move.arguments, f"call_{base}")
    return ModelToolCall(AGENT_TOOL, {"agent": agent, "tool": tool, "args": move.arguments}, f"call_{base}")


# -- Plan ----------------------------------------------------------------------------------------------------------------


def next_move(trip: dict[str, Any], results: Sequence[CallResult]) -> Move:
    """Choose the next step: find a date, get the forecast, find rooms, rank them, book."""
    rejection = results[-1].rejection if results else None
    if rejection is not None and rejection.get("code") != SOLD_OUT:
        return Move(f"This trip cannot be booked: {rejection.get('message', 'the call was rejected')}.")
    found = {each.tool: each.result for each in results if each.rejection is None}
    place, guests = trip["to"], trip["guests"]
    start = trip["start"] or found.get("weather.best_start")
    if start is None:
        arguments = {"destination": place, "earliest": trip["earliest"]}
        return Move(f"First, a date with good weather in {place}.", "weather.best_start", arguments)
    stay = {"destination": place, "start": start, "nights": trip["nights"]}
    forecast, search = found.get("weather.forecast"), found.get("hotel.offers")
    if forecast is None:
        return Move(f"The forecast from {start}.", "weather.forecast", stay)
    if search is None:
        room = stay | {"guests": guests} | ({"budget": trip["budget"]} if trip["budget"] else {})
        return Move(f"The weather fits {forecast['fit']} of 100. Next, hotels with free rooms.", "hotel.offers", room)
    return _choose_hotel(trip, start, forecast, search, found, results)


def _choose_hotel(
    trip: dict[str, Any],
    start: str,
    forecast: dict[str, Any],
    search: dict[str, Any],
    found: dict[str, Any],
    results: Sequence[CallResult],
) -> Move:
    offers = search["offers"]
    if not offers:
        return Move(_no_offer_text(trip, search["cheapest"]))
    advice, booking = found.get("advisor.advise"), found.get("book")
    if advice is None:
        arguments = {"weather": forecast, "offers": offers}
        return Move("The advisor ranks the offers.", "advisor.advise", arguments)
    if booking is not None:
        return Move(
            f"Booked: {booking['hotel']} in {trip['to']} from {booking['start']}, reference {booking['reference']}, for "
            f"EUR {booking['total']:,.2f}. {advice['weather']}"
        )
    sold_out = {each.arguments["hotel"] for each in results if each.tool == "book"}
    best = next((each for each in advice["ranking"] if each["hotel"] not in sold_out), None)
    if best is None:
        return Move("All suitable hotels are sold out.")
    order = {"hotel": best["hotel"], "start": start, "nights": trip["nights"], "guests": trip["guests"]}
    opening = "That hotel is sold out; the next best is" if sold_out else "The best hotel is"
    return Move(f"{opening} {best['hotel']}: {best['because']}.", "book", order | {"at_most": best["total"]})


def _no_offer_text(trip: dict[str, Any], cheapest: float | None) -> str:
    if cheapest is None:
        return f"No hotel in {trip['to']} has room for {trip['guests']} on these nights."
    return f"EUR {trip['budget']:,.0f} is too little: the cheapest hotel in {trip['to']} costs EUR {cheapest:,.2f} for this stay."
