"""Rate limits in the error responses of providers: HTTP headers, and details in Google's error bodies."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from protolink_grpc.errors import ReportedRateLimit

MAX_LIMITS: Final = 10
"""Maximum number of limits that are read from one response."""

_HEADER: Final = re.compile(
    r"(?:x-|anthropic-)?ratelimit-(?:(?P<before>[a-z-]{1,40})-)?(?P<fact>limit|remaining|reset)(?:-(?P<after>[a-z-]{1,40}))?"
)
"""Names of headers. OpenAI and servers with its API: `x-ratelimit-limit-requests`; Anthropic:
`anthropic-ratelimit-requests-limit`; the draft of the IETF: `ratelimit-limit`, without a unit."""

_COUNT: Final = re.compile(r"\d{1,15}(?=$|[,;\s])")
_DURATION: Final = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:ms|h|m|s))+")
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

_EPOCH_S, _EPOCH_MS = 1e9, 1e12
"""A larger number is not a duration, but a time in seconds or milliseconds since 1970."""

MAX_RESET_S: Final = 366 * 86400.0
"""A later reset is not plausible and counts as not reported."""


def read_rate_limits(headers: Mapping[str, str] | None, body: object) -> tuple[ReportedRateLimit, ...]:
    """Return the limits that a response reports, ordered by unit; at most `MAX_LIMITS`.

    Args:
        headers: With names in lower case; None if there are none.
        body: The JSON of the error; any other value reports nothing.
    """
    found: dict[str, ReportedRateLimit] = {}
    for name, value in (headers or {}).items():
        if (match := _HEADER.fullmatch(name)) is None:
            continue
        unit = (match["before"] or match["after"] or "").replace("-", "_")
        known = found.get(unit, ReportedRateLimit(unit))
        match match["fact"]:
            case "limit":
                found[unit] = replace(known, limit=_read_count(value))
            case "remaining":
                found[unit] = replace(known, remaining=_read_count(value))
            case _:
                found[unit] = replace(known, reset_s=_read_reset(value.strip()))
    for violated in _quota_violations(body):
        found.setdefault(violated.unit, violated)
    reported = (found[unit] for unit in sorted(found) if found[unit] != ReportedRateLimit(unit))
    return tuple(reported)[:MAX_LIMITS]


def _read_count(value: object) -> int | None:
    match = _COUNT.match(value.strip()) if isinstance(value, str) else None
    return None if match is None else int(match[0])


def _read_reset(value: str) -> float | None:
    """Return the seconds until a reset: `90`, `1m30s`, a time since 1970, or a time of RFC 3339."""
    now = datetime.now(UTC).timestamp()
    if _DURATION.fullmatch(value):
        seconds = sum(float(amount) * _SECONDS[unit] for amount, unit in _DURATION_PART.findall(value))
    else:
        try:
            seconds = float(value)
        except ValueError:
            try:
                seconds = datetime.fromisoformat(value).timestamp() - now
            except (ValueError, OverflowError):
                return None
        if seconds >= _EPOCH_S:
            seconds = (seconds / 1000 if seconds >= _EPOCH_MS else seconds) - now
    return round(max(seconds, 0.0), 3) if math.isfinite(seconds) and seconds <= MAX_RESET_S else None


def _quota_violations(body: object) -> Iterator[ReportedRateLimit]:
    """Yield the limits in a `google.rpc.QuotaFailure`. Gemini names the quota and its value, and not what remains."""
    error = body.get("error") if isinstance(body, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and str(detail.get("@type", "")).endswith("/google.rpc.QuotaFailure"):
            violations = detail.get("violations")
            for each in violations if isinstance(violations, list) else ():
                if isinstance(each, dict) and (limit := _read_count(each.get("quotaValue"))) is not None:
                    yield ReportedRateLimit(_unit_of_quota(each), limit)


def _unit_of_quota(violation: dict[str, Any]) -> str:
    metric = str(violation.get("quotaMetric", ""))
    if "input_token" in metric:
        return "input_tokens"
    return "requests" if "requests" in metric else ""
