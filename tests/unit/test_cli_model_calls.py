"""What `plgrpc` prints about model calls."""

from protolink_grpc.cli.snapshot_text import context_fields, context_tables
from protolink_grpc.cli.timeline import timeline
from protolink_grpc.models.action import ContextManifest, OmittedContext, OmittedItems
from protolink_grpc.models.events import ContextPrepared, LlmCallCompleted, LlmCallStarted, RunEvent
from protolink_grpc.models.report import RunReport
from protolink_grpc.models.snapshot import ContextBoundarySnapshot
from protolink_grpc.models.tool import OfferedTool, OfferedTools

TOOLS = OfferedTools((OfferedTool("look", "local"), OfferedTool("guide", "agent:guide")))
OMITTED = OmittedItems((OmittedContext("turn", "m1", "context_window", 1200), OmittedContext("part", "m2/1")), 30)


def test_the_context_of_a_call_shows_its_tools_and_what_it_leaves_out() -> None:
    found = ContextBoundarySnapshot("t", 9, 8, ContextManifest(), 2, offered=TOOLS, omitted=OMITTED)
    fields = dict(context_fields(found))
    assert (fields["Tools"], fields["Left out"]) == ("2", "30")
    title, _, rows = next(context_tables(found))
    assert title == "Left out"
    assert [list(row) for row in rows] == [["turn", "m1", "context_window", "1,200"], ["part", "m2/1", "", "unknown"]]


def test_the_context_of_a_call_of_an_earlier_version_shows_neither() -> None:
    found = ContextBoundarySnapshot("t", 9, 8, ContextManifest(), 2)
    fields = dict(context_fields(found))
    assert (fields["Tools"], fields["Left out"]) == ("", "")
    assert [title for title, *_ in context_tables(found)] == ["Compactions"]


def test_the_timeline_names_offered_tools_omissions_and_the_models_that_differ() -> None:
    payloads = (
        ContextPrepared(ContextManifest(), 1, TOOLS, OMITTED),
        LlmCallStarted("c", "cheap", "small", step=1, requested_provider="any", requested_model="best"),
        LlmCallCompleted("c", "cheap", "small", 1, "done", response_model="small-2026"),
    )
    events = [RunEvent(payload=each, task_id="t", sequence=number) for number, each in enumerate(payloads, 1)]
    prepared, started, completed = timeline(RunReport.from_events(events))
    assert "step 1, about 0 tokens, 30 left out, tools: look, guide" in prepared
    assert "step 1, cheap small, requested any best" in started
    assert "by small-2026 done" in completed
