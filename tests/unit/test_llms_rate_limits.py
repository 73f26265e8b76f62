"""Rate limits in headers and error bodies of providers."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from protolink_grpc.errors import ModelRateLimitedError, ReportedRateLimit
from protolink_grpc.llms.rate_limits import MAX_LIMITS, read_rate_limits
from protolink_grpc.models.failure import Failure, FailureCategory


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"x-ratelimit-limit": "100, 100;w=60", "x-ratelimit-reset": "30"}, [ReportedRateLimit("", 100, None, 30.0)]),
        ({"ratelimit-remaining": "7", "ratelimit-reset": "0"}, [ReportedRateLimit("", None, 7, 0.0)]),
        ({"x-ratelimit-reset-tokens": "120ms"}, [ReportedRateLimit("tokens", reset_s=0.12)]),
        ({"x-ratelimit-reset-requests": "1h0m3s"}, [ReportedRateLimit("requests", reset_s=3603.0)]),
        (
            {"x-ratelimit-limit-requests": "5", "x-ratelimit-limit-tokens": "9", "content-type": "text/html"},
            [ReportedRateLimit("requests", 5), ReportedRateLimit("tokens", 9)],
        ),
        (
            {"anthropic-ratelimit-output-tokens-limit": "8", "anthropic-ratelimit-output-tokens-remaining": "0"},
            [ReportedRateLimit("output_tokens", 8, 0)],
        ),
    ],
)
def test_limits_of_the_common_headers_are_read(headers: dict[str, str], expected: list[ReportedRateLimit]) -> None:
    assert list(read_rate_limits(headers, None)) == expected


@pytest.mark.parametrize(
    "value", ["", "soon", "-1", "nan", "inf", "1e400", "9" * 40, "12 tokens per second", "<script>", "1m1"]
)
def test_a_header_that_cannot_be_read_reports_nothing(value: str) -> None:
    assert all(each.limit is None for each in read_rate_limits({"x-ratelimit-limit": value.replace("12 ", "x")}, None))
    resets = [each.reset_s for each in read_rate_limits({"x-ratelimit-reset": value}, None)]
    assert resets in ([], [0.0])


@pytest.mark.parametrize("form", ["iso", "seconds", "milliseconds"])
def test_a_time_of_a_reset_becomes_a_duration(form: str) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    texts = {
        "iso": at.isoformat().replace("+00:00", "Z"),
        "seconds": str(int(at.timestamp())),
        "milliseconds": str(int(at.timestamp() * 1000)),
    }
    [limit] = read_rate_limits({"x-ratelimit-reset": texts[form]}, None)
    assert limit.reset_s is not None
    assert 3000 < limit.reset_s <= 3600


@pytest.mark.parametrize(
    "body",
    [
        None,
        "text",
        [],
        {"error": "text"},
        {"error": {"details": "none"}},
        {"error": {"details": [None, {"@type": "x/google.rpc.QuotaFailure", "violations": 1}]}},
        {"error": {"details": [{"@type": "x/google.rpc.QuotaFailure", "violations": [1, {"quotaValue": [1]}]}]}},
    ],
)
def test_a_body_without_quotas_reports_nothing(body: Any) -> None:
    assert read_rate_limits(None, body) == ()


def test_the_number_of_limits_is_bounded() -> None:
    headers = {f"x-ratelimit-limit-{chr(97 + index)}": "1" for index in range(26)}
    assert len(read_rate_limits(headers, None)) == MAX_LIMITS


def test_a_failure_has_the_limits_as_json_with_fixed_keys() -> None:
    error = ModelRateLimitedError(
        "slow", retry_after_s=3.0, limits=[ReportedRateLimit("requests", 60, 0)], provider="openai"
    )
    failure = Failure.from_error(error)
    assert (failure.reason, failure.category) == ("MODEL_RATE_LIMITED", FailureCategory.LIMIT)
    assert (failure.retryable, failure.retry_delay_s) == (True, 3.0)
    limits = [{"unit": "requests", "limit": 60, "remaining": 0, "reset_s": None}]
    assert failure.details == {"provider": "openai", "limits": limits}
    assert Failure.from_value(failure.to_value()) == failure
    assert Failure.from_error(ModelRateLimitedError("slow")).details is None
