"""OpenTelemetry: spans and metrics of runs, sent to a collector, to Langfuse or to LangSmith over OTLP."""

import atexit
import os
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, get_args

from protolink_grpc.errors import InvalidArgumentError, UnimplementedError
from protolink_grpc.lazy import load
from protolink_grpc.runtime.service import ServiceGauges
from protolink_grpc.telemetry.base import Telemetry
from protolink_grpc.telemetry.spans import Span

OtlpProtocol = Literal["http/protobuf", "grpc"]
"""The transports of OTLP, as `OTEL_EXPORTER_OTLP_PROTOCOL` names them."""

_EXPORT = "protolink_grpc.telemetry.otel_export"
"""The module that imports OpenTelemetry's SDK."""

_PACKAGES: dict[OtlpProtocol, str] = {
    "http/protobuf": "opentelemetry.exporter.otlp.proto.http",
    "grpc": "opentelemetry.exporter.otlp.proto.grpc",
}


class OpenTelemetryTelemetry(Telemetry):
    """Exports the runs, model calls, actions and approvals of agents as spans, and metrics about them.

    A run is in the trace of its caller (`traceparent`), so the spans of several agents make one trace. Several agents may share one
    object.

    Args:
        processors: Span processors of OpenTelemetry's SDK. Without any, spans are sent in batches over OTLP.
        endpoint: URL for OTLP, such as `http://collector:4318/v1/traces`, or `http://collector:4317` over gRPC. None takes
            `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT`.
        headers: Headers for `endpoint`. None takes `OTEL_EXPORTER_OTLP_HEADERS`.
        protocol: Transport of OTLP. None takes `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL` or `OTEL_EXPORTER_OTLP_PROTOCOL`, then
            `http/protobuf`.
        capture_content: Export prompts, answers, arguments, results and error messages, redacted by the agent's policy.
        meter_provider: Receives the metrics. None takes the meter provider of the process, unless metrics are sent over OTLP.
        metrics_endpoint: URL for metrics over OTLP, such as `http://collector:4318/v1/metrics`, with `headers` and `protocol`. None
            sends them to the endpoint of the standard variables if spans go there too and the process has no meter provider.

    Raises:
        InvalidArgumentError: `processors` are given with `endpoint`, `headers`, `protocol` or `metrics_endpoint`; or
            `metrics_endpoint` is given with `meter_provider`; the protocol is unknown; or a URL for HTTP has another scheme.
        UnimplementedError: OpenTelemetry's SDK or exporter is not installed.
    """

    def __init__(
        self,
        *processors: Any,
        endpoint: str | None = None,
        headers: Mapping[str, str] | None = None,
        protocol: OtlpProtocol | None = None,
        capture_content: bool = False,
        meter_provider: Any = None,
        metrics_endpoint: str | None = None,
    ) -> None:
        given = {"endpoint": endpoint, "headers": headers, "protocol": protocol, "metrics_endpoint": metrics_endpoint}
        if processors and (misplaced := [name for name, value in given.items() if value is not None]):
            raise InvalidArgumentError(
                "is for the default processor: give it to the exporter instead", field=misplaced[0]
            )
        if metrics_endpoint is not None and meter_provider is not None:
            raise InvalidArgumentError("is for the default meter provider", field="metrics_endpoint")
        self.capture_content = capture_content
        try:
            if endpoint:
                _check_scheme(endpoint, _otlp_protocol(protocol, "TRACES"), "endpoint")
            if metrics_endpoint:
                _check_scheme(metrics_endpoint, _otlp_protocol(protocol, "METRICS"), "metrics_endpoint")
            used = processors or (_otlp_processor(endpoint, headers, _otlp_protocol(protocol, "TRACES")),)
            provider_of = load(f"{_EXPORT}:process_meter_provider")
            if meter_provider is not None:
                provider_of = partial(_first, meter_provider)
            elif metrics_endpoint is not None or (not processors and endpoint is None and _exports_metrics()):
                exporter = _metric_exporter(metrics_endpoint, headers, _otlp_protocol(protocol, "METRICS"))
                provider_of = partial(load(f"{_EXPORT}:exporting_meter_provider"), exporter)
            self._export = load(f"{_EXPORT}:SpanExport")(used, provider_of)
        except ModuleNotFoundError as error:
            raise UnimplementedError(
                f"{type(self).__name__} needs the extra: pip install 'protolink-grpc[otel]'", package=error.name or ""
            ) from error

    def on_span(self, span: Span) -> None:
        self._export.export(span)

    def add_service(self, agent_name: str, gauges: Callable[[], ServiceGauges | None]) -> None:
        self._export.add_service(agent_name, gauges)

    def flush(self) -> None:
        self._export.flush()


class LangfuseTelemetry(OpenTelemetryTelemetry):
    """Sends spans to Langfuse, over OTLP.

    Args:
        public_key: None takes `LANGFUSE_PUBLIC_KEY`.
        secret_key: None takes `LANGFUSE_SECRET_KEY`.
        host: None takes `LANGFUSE_BASE_URL`, then `LANGFUSE_HOST`, then Langfuse Cloud.
        capture_content: As for OpenTelemetryTelemetry.

    Raises:
        InvalidArgumentError: A key is missing; names it.
        UnimplementedError: As OpenTelemetryTelemetry.

    Source: https://langfuse.com/integrations/native/opentelemetry
    """

    def __init__(
        self,
        public_key: str | None = None,
        secret_key: str | None = None,
        host: str | None = None,
        *,
        capture_content: bool = False,
    ) -> None:
        public = _setting("public_key", public_key, "LANGFUSE_PUBLIC_KEY")
        secret = _setting("secret_key", secret_key, "LANGFUSE_SECRET_KEY")
        base = _setting("host", host, "LANGFUSE_BASE_URL", "LANGFUSE_HOST", default="https://cloud.langfuse.com")
        token = b64encode(f"{public}:{secret}".encode()).decode()
        super().__init__(
            endpoint=f"{base.rstrip('/')}/api/public/otel/v1/traces",
            headers={"authorization": f"Basic {token}"},
            protocol="http/protobuf",
            capture_content=capture_content,
        )


class LangSmithTelemetry(OpenTelemetryTelemetry):
    """Sends spans to LangSmith, over OTLP.

    Args:
        api_key: None takes `LANGSMITH_API_KEY`, then `LANGCHAIN_API_KEY`.
        project_name: None takes `LANGSMITH_PROJECT`, then `LANGCHAIN_PROJECT`, then `default`.
        endpoint: None takes `LANGSMITH_ENDPOINT`, then LangSmith's cloud.
        capture_content: As for OpenTelemetryTelemetry.

    Raises:
        InvalidArgumentError: The key is missing.
        UnimplementedError: As OpenTelemetryTelemetry.

    Source: https://docs.langchain.com/langsmith/trace-with-opentelemetry
    """

    def __init__(
        self,
        api_key: str | None = None,
        project_name: str | None = None,
        *,
        endpoint: str | None = None,
        capture_content: bool = False,
    ) -> None:
        key = _setting("api_key", api_key, "LANGSMITH_API_KEY", "LANGCHAIN_API_KEY")
        project = _setting("project_name", project_name, "LANGSMITH_PROJECT", "LANGCHAIN_PROJECT", default="default")
        base = _setting("endpoint", endpoint, "LANGSMITH_ENDPOINT", default="https://api.smith.langchain.com")
        super().__init__(
            endpoint=f"{base.rstrip('/')}/otel/v1/traces",
            headers={"x-api-key": key, "langsmith-project": project},
            protocol="http/protobuf",
            capture_content=capture_content,
        )


def _setting(name: str, given: str | None, *variables: str, default: str = "") -> str:
    """Return an argument, else the first environment variable that is set, else the default.

    Raises:
        InvalidArgumentError: No value is set; names the argument.
    """
    found = given or next(filter(None, (os.environ.get(each) for each in variables)), default)
    if not found:
        raise InvalidArgumentError(f"is required, as an argument or as {variables[0]}", field=name)
    return found


def _otlp_protocol(given: str | None, signal: str) -> OtlpProtocol:
    """Return the transport of a signal, `TRACES` or `METRICS`.

    Raises:
        InvalidArgumentError: It is unknown; names the argument or the variable.
    """
    variables = (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    field = "protocol" if given else next((name for name in variables if os.environ.get(name)), "protocol")
    found = given or os.environ.get(field) or "http/protobuf"
    for known in get_args(OtlpProtocol):
        if found == known:
            return known  # type: ignore[no-any-return]  # `get_args` has no type for a member of a Literal
    raise InvalidArgumentError(f"must be one of {', '.join(get_args(OtlpProtocol))}, not {found!r}", field=field)


def _otlp_processor(endpoint: str | None, headers: Mapping[str, str] | None, protocol: OtlpProtocol) -> Any:
    exporter = load(f"{_PACKAGES[protocol]}.trace_exporter:OTLPSpanExporter")
    batches = load("opentelemetry.sdk.trace.export:BatchSpanProcessor")
    made = batches(exporter(endpoint=endpoint, headers=None if headers is None else dict(headers)))
    atexit.register(made.shutdown)
    return made


def _check_scheme(endpoint: str, protocol: OtlpProtocol, field: str) -> None:
    # The exporter would only log an error for each batch.
    if protocol == "http/protobuf" and not endpoint.startswith(("http://", "https://")):
        raise InvalidArgumentError("must begin with http:// or https://", field=field)


def _exports_metrics() -> bool:
    """Whether the standard variables name an endpoint for metrics, which nothing else of the process exports to."""
    if os.environ.get("OTEL_METRICS_EXPORTER", "otlp") != "otlp":
        return False
    variables = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    return any(os.environ.get(each) for each in variables) and not load(f"{_EXPORT}:has_process_meter_provider")()


def _metric_exporter(
    endpoint: str | None, headers: Mapping[str, str] | None, protocol: OtlpProtocol
) -> Callable[[], Any]:
    exporter = load(f"{_PACKAGES[protocol]}.metric_exporter:OTLPMetricExporter")
    return partial(exporter, endpoint=endpoint, headers=None if headers is None else dict(headers))


def _first(provider: Any, _: object) -> Any:
    return provider
