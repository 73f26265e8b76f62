"""W3C trace context: headers, the trace of a task, and ids of spans."""

import pytest

from protolink_grpc import RunContext
from protolink_grpc.net.trace_context import (
    MAX_STATE_CHARS,
    TRACEPARENT,
    TRACESTATE,
    TraceContext,
    parse_state,
    span_id_of,
    trace_of,
    with_trace,
)
from protolink_grpc.net.tracing import add_origin, receive_origin

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADER = f"00-{TRACE}-{SPAN}-01"


def test_a_header_is_read_and_written_unchanged() -> None:
    for header in (HEADER, f"00-{TRACE}-{SPAN}-00"):
        found = TraceContext.parse(header)
        assert found is not None
        assert found.header == header
    assert TraceContext.parse(f" {HEADER} ") == TraceContext(TRACE, SPAN, is_sampled=True)


def test_a_later_version_may_have_more_fields() -> None:
    assert TraceContext.parse(f"01-{TRACE}-{SPAN}-03-more") == TraceContext(TRACE, SPAN, is_sampled=True)


@pytest.mark.parametrize(
    "header",
    [
        "",
        None,
        7,
        HEADER.upper(),
        f"{HEADER}-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}",
        "01-" + HEADER * 100,
    ],
)
def test_an_invalid_header_counts_as_none(header: object) -> None:
    assert TraceContext.parse(header) is None


def test_the_trace_of_a_task_is_that_of_its_caller_else_its_trace_id_else_its_own() -> None:
    caller = RunContext(trace_id="other", metadata={TRACEPARENT: HEADER})
    assert trace_of(caller, "task") == TraceContext(TRACE, SPAN)
    named = RunContext(trace_id="4BF92F35-77B3-4DA6-A3CE-929D0E0E4736")
    assert trace_of(named, "task") == TraceContext(TRACE)
    text = trace_of(RunContext(trace_id="order 7"), "task")
    assert (len(text.trace_id), text.span_id) == (32, "")
    assert text == trace_of(RunContext(trace_id="order 7"), "another task")
    assert trace_of(None, "4bf92f35-77b3-4da6-a3ce-929d0e0e4736") == TraceContext(TRACE)
    assert trace_of(None, "task") == trace_of(RunContext(metadata={TRACEPARENT: "junk"}), "task")
    assert trace_of(None, "task") != trace_of(None, "another task")


def test_a_context_gets_the_trace_of_its_caller_and_keeps_its_own_trace_id() -> None:
    trace = TraceContext(TRACE, SPAN)
    plain = with_trace(RunContext(), trace)
    assert (plain.trace_id, plain.metadata) == (TRACE, {TRACEPARENT: HEADER})
    assert with_trace(RunContext(trace_id="order 7"), trace).trace_id == "order 7"
    context = RunContext()
    assert with_trace(context, None) is context
    assert with_trace(context, TraceContext(TRACE)) is context


def test_span_ids_depend_on_all_ids() -> None:
    assert len({span_id_of("a", "b"), span_id_of("ab"), span_id_of("b", "a"), span_id_of("a")}) == 4
    assert len(span_id_of("a")) == 16


def test_the_entries_of_tracing_systems_are_kept_in_their_order() -> None:
    assert parse_state("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE") == "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
    assert parse_state("tenant@vendor=a b , ,other=1\t,") == "tenant@vendor=a b,other=1"


@pytest.mark.parametrize(
    "header",
    [
        "Upper=1",
        "a",
        "a=",
        "a=b=c",
        "a=\u00e4",
        "a=1\r\nb",
        "a=1,a=2",
        f"{'k' * 257}=1",
        f"a={'v' * 257}",
        ",".join(f"k{number}=1" for number in range(33)),
        "a=1," * 3000,
        7,
        None,
    ],
)
def test_an_invalid_tracestate_counts_as_none_and_leaves_the_trace(header: object) -> None:
    assert parse_state(header) == ""
    assert TraceContext.parse(HEADER, header) == TraceContext(TRACE, SPAN)


def test_a_long_tracestate_loses_whole_entries_first_the_long_ones_then_the_last_ones() -> None:
    entries = ["long=" + "x" * 200, *(f"k{number}=" + "x" * 50 for number in range(10))]
    kept = parse_state(",".join(entries))
    assert len(kept) <= MAX_STATE_CHARS
    assert kept.split(",") == entries[1 : 1 + len(kept.split(","))]
    assert len(kept.split(",")) == 9


def test_the_tracestate_is_stored_with_the_span_that_it_belongs_to() -> None:
    stored = with_trace(RunContext(), TraceContext(TRACE, SPAN, state="a=1"))
    assert stored.metadata == {TRACEPARENT: HEADER, TRACESTATE: "a=1"}
    assert trace_of(stored, "task").within("f" * 16).state == "a=1"
    assert with_trace(stored, TraceContext(TRACE, SPAN)).metadata == {TRACEPARENT: HEADER}
    assert TraceContext.parse("", "a=1") is None


async def test_calls_carry_the_tracestate_of_the_caller() -> None:
    receive_origin("", HEADER, "a=1,b=2")
    assert add_origin((("k", "v"),)) == (("k", "v"), (TRACEPARENT, HEADER), (TRACESTATE, "a=1,b=2"))
    receive_origin("", "", "a=1")
    assert add_origin(()) is None
