"""The metrics of agents: their names, and their values in spans and in the current numbers of a service.

OpenTelemetry (`otel_export`), Prometheus (`prometheus`) and the HTTP port export the same metrics.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from protolink_grpc.runtime.service import ServiceGauges
from protolink_grpc.telemetry import genai
from protolink_grpc.telemetry.spans import Span


@dataclass(frozen=True, slots=True)
class Instrument:
    """One metric.

    Args:
        unit: As UCUM writes it, such as `s`; `1` without one, and a word in braces for things that are counted.
    """

    name: str
    unit: str
    description: str
    kind: Literal["histogram", "counter", "gauge"] = "histogram"


RUN_DURATION: Final = Instrument(genai.RUN_DURATION, "s", "Duration of runs by agent and state.")
OPERATION_DURATION: Final = Instrument(genai.OPERATION_DURATION, "s", "Duration of model calls.")
TOKENS: Final = Instrument(genai.USAGE, "{token}", "Input and output tokens of model calls.")
COST: Final = Instrument(genai.COST, "1", "Cost of model calls, in units of the currency.", "counter")
ACTION_DURATION: Final = Instrument(genai.ACTION_DURATION, "s", "Duration of executed actions.")
APPROVAL_WAIT: Final = Instrument(genai.APPROVAL_WAIT, "s", "Time until approvals were decided.")

OF_SPANS: Final = (RUN_DURATION, OPERATION_DURATION, TOKENS, COST, ACTION_DURATION, APPROVAL_WAIT)
"""The metrics that are recorded when a span ends."""

OF_SERVICES: Final[tuple[tuple[Instrument, Callable[[ServiceGauges], float]], ...]] = (
    (Instrument("plgrpc.runs.running", "{run}", "Runs that work.", "gauge"), lambda now: now.running),
    (Instrument("plgrpc.runs.queued", "{run}", "Runs that wait for a slot.", "gauge"), lambda now: now.queued),
    (Instrument("plgrpc.runs.waiting", "{run}", "Runs that wait for a person.", "gauge"), lambda now: now.waiting),
    (Instrument("plgrpc.watchers", "{watcher}", "Readers of logs.", "gauge"), lambda now: now.watchers),
    (Instrument("plgrpc.store.commits", "{commit}", "Commits of the store.", "counter"), lambda now: now.commits),
    (Instrument("plgrpc.store.commit.time", "s", "Time of the commits.", "counter"), lambda now: now.commit_s),
)
"""The metrics that are read from a service when they are exported."""

Attributes = Mapping[str, Any]


def measurements_of(span: Span) -> Iterator[tuple[Instrument, float, Attributes]]:
    """Yield the values that a span adds to the metrics. It must have ended."""
    facts, seconds = span.attributes, span.duration_micros / 1e6
    match span.kind:
        case "run":
            yield RUN_DURATION, seconds, {"gen_ai.agent.name": span.agent_name, "plgrpc.state": facts["state"]}
        case "llm":
            yield from _call_measurements(span, seconds)
        case "tool" | "agent_call":
            outcome = str(facts.get("outcome", span.error))
            attributes = {"plgrpc.kind": span.kind, "plgrpc.name": span.name, "plgrpc.outcome": outcome}
            yield ACTION_DURATION, facts.get("execution_micros", 0) / 1e6, attributes
        case "approval" if "decision" in facts:
            yield APPROVAL_WAIT, seconds, {"plgrpc.name": span.name, "plgrpc.decision": facts["decision"]}


def _call_measurements(span: Span, seconds: float) -> Iterator[tuple[Instrument, float, Attributes]]:
    facts = span.attributes
    common = {
        "gen_ai.operation.name": genai.OPERATIONS["llm"],
        "gen_ai.provider.name": genai.provider_of(span),
        "gen_ai.request.model": facts["model"],
    }
    yield OPERATION_DURATION, seconds, common | ({genai.ERROR_TYPE: span.error} if span.error else {})
    for kind in ("input", "output"):
        if (tokens := facts.get(f"{kind}_tokens")) is not None:
            yield TOKENS, tokens, common | {genai.USAGE_TYPE: kind}
    if (cost := facts.get("cost_micros")) is not None:
        yield COST, cost / 1e6, common | {"plgrpc.currency": facts["currency"]}
