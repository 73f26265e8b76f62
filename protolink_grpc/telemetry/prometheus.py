"""Metrics of runs for Prometheus: counted in memory, shown by the HTTP port or a registry of the application."""

import threading
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from protolink_grpc.lazy import load
from protolink_grpc.telemetry.base import Telemetry
from protolink_grpc.telemetry.metrics import OF_SPANS, Instrument, measurements_of
from protolink_grpc.telemetry.spans import Span

MAX_SERIES = 2000
"""Maximum number of label combinations of one metric; the values of further ones are counted with empty labels."""

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_TOKENS = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0)


@dataclass(slots=True)
class _Series:
    """The values with one combination of labels. `counts` by bucket, the last one for everything above."""

    counts: list[int] = field(default_factory=list)
    total: float = 0.0


class PrometheusTelemetry(Telemetry):
    """Counts runs, model calls, tokens, costs, actions and approvals for Prometheus, under the names of the OpenTelemetry metrics.

    `/metrics` of the agent's HTTP port shows them. It is also a collector of prometheus_client: `registry.register(telemetry)`.
    Several agents may share one object.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._series: dict[str, dict[tuple[tuple[str, str], ...], _Series]] = {each.name: {} for each in OF_SPANS}

    def on_span(self, span: Span) -> None:
        for instrument, value, attributes in measurements_of(span):
            self._record(instrument, value, attributes)

    def _record(self, instrument: Instrument, value: float, attributes: Mapping[str, Any]) -> None:
        labels = tuple((_identifier(name), str(each)) for name, each in sorted(attributes.items()))
        buckets = _buckets(instrument)
        with self._lock:
            all_series = self._series[instrument.name]
            if len(all_series) >= MAX_SERIES and labels not in all_series:
                labels = tuple((name, "") for name, _ in labels)
            series = all_series.get(labels)
            if series is None:
                series = all_series[labels] = _Series([0] * (len(buckets) + 1))
            series.counts[bisect_left(buckets, value)] += 1
            series.total += value

    def collect(self) -> Iterator[Any]:
        """Yield the current values as metric families of prometheus_client. May be called from any thread."""
        counters = load("prometheus_client.core:CounterMetricFamily")
        histograms = load("prometheus_client.core:HistogramMetricFamily")
        for instrument in OF_SPANS:
            with self._lock:
                found = [
                    (labels, list(each.counts), each.total) for labels, each in self._series[instrument.name].items()
                ]
            names = sorted({name for labels, _, _ in found for name, _ in labels})
            name = prometheus_name(instrument)
            if instrument.kind == "counter":
                counter = counters(name, instrument.description, labels=names)
                for labels, _, total in found:
                    counter.add_metric(_values(labels, names), total)
                yield counter
                continue
            family = histograms(name, instrument.description, labels=names)
            bounds = (*map(str, _buckets(instrument)), "+Inf")
            for labels, counts, total in found:
                family.add_metric(_values(labels, names), list(zip(bounds, accumulate(counts), strict=True)), total)
            yield family


def prometheus_name(instrument: Instrument) -> str:
    """Return the name of a metric in Prometheus: with underscores and its unit.

    Source: https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/
    """
    return _identifier(instrument.name) + ("_seconds" if instrument.unit == "s" else "")


def _identifier(name: str) -> str:
    return name.replace(".", "_")


def _values(labels: tuple[tuple[str, str], ...], names: list[str]) -> list[str]:
    given = dict(labels)
    return [given.get(name, "") for name in names]


def _buckets(instrument: Instrument) -> tuple[float, ...]:
    if instrument.kind == "counter":
        return ()
    return _SECONDS if instrument.unit == "s" else _TOKENS
