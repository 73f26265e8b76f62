"""Rows of the result: medians over rounds, ratios to the floor, and bars. `report` prints them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

DESIGN_FLOOR_US = 156.0
"""Server CPU per request of the bare gRPC floor on the machine for which the bars in microseconds were set."""


@dataclass(slots=True)
class Sample:
    """The measurement of one round of one case.

    Args:
        done: Number of answered requests, read events, or other units of the case.
        elapsed_s: Seconds from the first start to the last end.
        latencies_s: One for each request; empty if single requests are not timed.
        cpu_s: CPU time of the measured process (`process`), and of its threads by name.
    """

    done: int
    elapsed_s: float
    latencies_s: list[float] = field(default_factory=list)
    cpu_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def per_second(self) -> float:
        return self.done / self.elapsed_s

    def percentile_ms(self, share: float) -> float | None:
        if not self.latencies_s:
            return None
        ordered = sorted(self.latencies_s)
        return 1e3 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def cpu_us(self, thread: str = "process") -> float | None:
        return 1e6 * self.cpu_s[thread] / self.done if thread in self.cpu_s else None


@dataclass(slots=True)
class Row:
    """One measured case; the fields are those of `latest.json`.

    Args:
        unit: Unit of `per_second` and `server_cpu_us`, or of `value`.
        bytes: Size of the text of one request, or of one event.
        ratio_to_floor: `per_second` divided by the floor's: the median of the rounds' ratios; None without a floor.
        cpu_ratio_to_floor: The same for `server_cpu_us`.
        cpu_split_us: `server_cpu_us` by thread; gRPC's own threads are `grpc`.
        value: The measured value of cases that do not measure speed.
        bar: The requirement of the design, as text; empty without one.
        missed_by: The distance from a missed bar, as text.
    """

    case: str
    unit: str
    in_flight: int | None = None
    bytes: int | None = None
    per_second: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    server_cpu_us: float | None = None
    ratio_to_floor: float | None = None
    cpu_ratio_to_floor: float | None = None
    cpu_split_us: dict[str, float] = field(default_factory=dict)
    value: float | None = None
    bar: str = ""
    met: bool | None = None
    missed_by: str = ""
    note: str = ""

    def add_bar(self, bar: str, measured: float | None, *, at_most: float = 0.0, at_least: float = 0.0) -> "Row":
        """Compare the row with a bar. If this is called again, all bars must be met."""
        if measured is None:
            return self
        met = measured <= at_most if at_most else measured >= at_least
        self.bar = f"{self.bar}; {bar}" if self.bar else bar
        self.met = met and self.met is not False
        if not met:
            share = 100 * (measured / (at_most or at_least) - 1)
            self.missed_by = f"{self.missed_by}; {share:+.0f} %" if self.missed_by else f"{share:+.0f} %"
        return self

    def add_bar_us(self, bar_us: float, ratio: float | None = None) -> "Row":
        """Compare the server CPU per request with a bar, scaled to a machine on which the floor takes `DESIGN_FLOOR_US`.

        Args:
            ratio: Server CPU divided by that of the gRPC floor in the same rounds; by default `cpu_ratio_to_floor`.
        """
        ratio = self.cpu_ratio_to_floor if ratio is None else ratio
        if ratio is None:
            return self
        scaled = ratio * DESIGN_FLOOR_US
        note = f"{scaled:.0f} us where the floor takes {DESIGN_FLOOR_US:.0f} us"
        self.note = f"{self.note}; {note}" if self.note else note
        return self.add_bar(f"<= {bar_us:g} us, scaled by the floor", scaled, at_most=bar_us)

    def add_bar_per_second(self, least: float, samples: Sequence[Sample], floor: Sequence[Sample]) -> "Row":
        """Compare the rate with a bar, scaled as by `add_bar_us`.

        Args:
            samples: The rounds of the row.
            floor: Calls of the gRPC floor, in the same rounds.
        """
        micros = [its.cpu_us() for its in floor]
        scaled = _median(
            own.per_second * taken / DESIGN_FLOOR_US
            for own, taken in zip(samples, micros, strict=True)
            if taken is not None
        )
        if scaled is None:
            return self
        note = f"{scaled:,.0f}/s where the floor takes {DESIGN_FLOOR_US:.0f} us"
        self.note = f"{self.note}; {note}" if self.note else note
        return self.add_bar(f">= {least:,.0f}/s, scaled by the floor", scaled, at_least=least)

    def as_json(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in values.items()}


def row_of(case: str, unit: str, samples: Sequence[Sample], floor: Sequence[Sample] = ()) -> Row:
    """Return the row with the medians of the rounds. `floor` has the floor's rounds of the same case, in the same order."""
    row = Row(case, unit, per_second=median(sample.per_second for sample in samples))
    row.p50_ms = _median(sample.percentile_ms(0.5) for sample in samples)
    row.p99_ms = _median(sample.percentile_ms(0.99) for sample in samples)
    row.server_cpu_us = _median(sample.cpu_us() for sample in samples)
    row.cpu_split_us = _split(samples)
    if floor:
        row.ratio_to_floor = median(own.per_second / its.per_second for own, its in zip(samples, floor, strict=True))
        row.cpu_ratio_to_floor = _median(
            _ratio(own.cpu_us(), its.cpu_us()) for own, its in zip(samples, floor, strict=True)
        )
    return row


def _ratio(own: float | None, its: float | None) -> float | None:
    return own / its if own is not None and its else None


def _median(values: Any) -> float | None:
    present = [value for value in values if value is not None]
    return median(present) if present else None


THREAD_NAMES = {"MainThread": "loop", "plgrpc-store-write": "store", "plgrpc-store-read_0": "reads"}


def _split(samples: Sequence[Sample]) -> dict[str, float]:
    names = [name for name in samples[0].cpu_s if name in THREAD_NAMES]
    split = {THREAD_NAMES[name]: _median(sample.cpu_us(name) for sample in samples) or 0.0 for name in names}
    whole = _median(sample.cpu_us() for sample in samples)
    if not split or whole is None:
        return {}
    split["grpc"] = max(0.0, whole - sum(split.values()))
    return {name: round(micros, 1) for name, micros in split.items()}
