"""Telemetry: hooks, local traces and OpenTelemetry, all computed from the logs of tasks."""

from protolink_grpc.logs import RunFieldsFilter
from protolink_grpc.telemetry.base import Telemetry
from protolink_grpc.telemetry.local import (
    LocalTraceRecorder,
    LocalTraceTelemetry,
    TraceEvent,
    TraceRecord,
    TraceSpan,
    spans_of_record,
)
from protolink_grpc.telemetry.multi import MultiTelemetry
from protolink_grpc.telemetry.otel import LangfuseTelemetry, LangSmithTelemetry, OpenTelemetryTelemetry
from protolink_grpc.telemetry.prometheus import PrometheusTelemetry
from protolink_grpc.telemetry.spans import Span, SpanEvent, spans_of
from protolink_grpc.telemetry.waterfall import waterfall

__all__ = [
    "LangSmithTelemetry",
    "LangfuseTelemetry",
    "LocalTraceRecorder",
    "LocalTraceTelemetry",
    "MultiTelemetry",
    "OpenTelemetryTelemetry",
    "PrometheusTelemetry",
    "RunFieldsFilter",
    "Span",
    "SpanEvent",
    "Telemetry",
    "TraceEvent",
    "TraceRecord",
    "TraceSpan",
    "spans_of",
    "spans_of_record",
    "waterfall",
]
