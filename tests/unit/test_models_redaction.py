import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models import BudgetUsage, ContextManifest, RunAction, RunContext
from protolink_grpc.models.payload import Payload, TypedMessage
from protolink_grpc.models.redaction import DEFAULT_PATTERNS, DEFAULT_SENSITIVE_KEYS
from protolink_grpc.policy import DEFAULT_REDACTION_POLICY, RedactionPolicy

HIDDEN = "[REDACTED]"
redact, redact_text = DEFAULT_REDACTION_POLICY.redact, DEFAULT_REDACTION_POLICY.redact_text


# Names of fields


@pytest.mark.parametrize(
    "key",
    [
        *sorted(DEFAULT_SENSITIVE_KEYS),
        "API-Key",
        "Authorization",
        "apiKey",
        "APIKey",
        "clientSecret",
        "x-api-key",
        "AWS_SECRET_ACCESS_KEY",
        "db.password",
        "userPassword",
        "github_token",
        "accessToken",
        "Access Token",
        "smtp_credentials",
        "webhook-secret",
    ],
)
def test_the_value_of_a_sensitive_field_is_replaced_whatever_it_is(key):
    values = ["x", 1, 0.5, True, ["x"], {"user": "x"}]
    assert [each for each in values if redact([{key: each, "b": 1}]) != [{key: HIDDEN, "b": 1}]] == []


@pytest.mark.parametrize(
    "key",
    ["input_tokens", "total_tokens", "max_tokens", "tokens", "outputTokens", "author", "key", "passenger", "secretary"],
)
def test_counts_of_tokens_and_other_names_are_no_secrets(key):
    assert redact({key: 12}) == {key: 12}


def test_records_of_a_run_keep_their_numbers():
    for record in (BudgetUsage(1, 2, 3, 4, 5), ContextManifest(user_tokens=5), RunContext(run_id="r")):
        assert redact(record.to_dict()) == record.to_dict()


def test_an_absent_secret_stays_absent():
    assert redact({"password": None}) == {"password": None}


def test_other_names_take_the_place_of_the_listed_ones_and_the_suffixes_stay():
    policy = RedactionPolicy(sensitive_keys=["SSN", "birthDate"])
    source = {"ssn": "1", "birth-date": "2", "password": "3", "my_password": "4"}
    assert policy.redact(source) == {"ssn": HIDDEN, "birth-date": HIDDEN, "password": "3", "my_password": HIDDEN}


# Looks


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Authorization: Bearer abc123", f"Authorization: Bearer {HIDDEN}"),
        ("sent bearer  mF_9.B5f-4.1JqM==, then", f"sent bearer  {HIDDEN}, then"),
        ("authorization: basic dXNlcjpwYXNz", f"authorization: basic {HIDDEN}"),
        ("key sk-1234567890abcdef.", f"key {HIDDEN}."),
        ("sk-ant-api03-abcDEF_123-xyz", HIDDEN),
        ("sk-proj-abcdefghijklmnopqrstuv", HIDDEN),
        ("sk_live_abcdefgh12345678", HIDDEN),
        ("url?key%3Dsk-1234567890abcdef&b", f"url?key%3D{HIDDEN}&b"),
        ("token ghp_abcdefghijklmnopqrst0123", f"token {HIDDEN}"),
        ("github_pat_11ABCDEFG0abcdefghijkl", HIDDEN),
        ("xoxb-1234567890-abcdefghijkl", HIDDEN),
        ("hf_abcdefghijklmnopqrst", HIDDEN),
        ("AIza" + "x" * 35, HIDDEN),
        ("id AKIAIOSFODNN7EXAMPLE used", f"id {HIDDEN} used"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP-mB9", HIDDEN),
        ("(eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.)", f"({HIDDEN})"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\nab-c==\n-----END RSA PRIVATE KEY-----\nrest", f"{HIDDEN}\nrest"),
        ("a -----BEGIN PRIVATE KEY-----\nMIIE cut off", f"a {HIDDEN}"),
        ("postgres://app:hunter2@db:5432/x", f"postgres://app:{HIDDEN}@db:5432/x"),
        ("redis://:p@ss:w@rd@cache", f"redis://:{HIDDEN}@cache"),
        ("https://x/y?password=hunter2&z=1", f"https://x/y?password={HIDDEN}&z=1"),
        ("https://x/y?token=abc#f", f"https://x/y?token={HIDDEN}"),
        ("DB_PASSWORD=hunter2 api-key=k", f"DB_PASSWORD={HIDDEN} api-key={HIDDEN}"),
        ('{"city": "Rome", "api_key" : "ab\\"c", "n": 1}', f'{{"city": "Rome", "api_key" : "{HIDDEN}", "n": 1}}'),
        ("api_key: VALUE, next", f"api_key: {HIDDEN}, next"),
        ("X-API-Key:VALUE", f"X-API-Key:{HIDDEN}"),
        ("token: abc", f"token: {HIDDEN}"),
        ("password = hunter2", f"password = {HIDDEN}"),
        ("secret: 'two words'", f"secret: '{HIDDEN}'"),
        ('api_key = "two words"', f'api_key = "{HIDDEN}"'),
        ("Authorization: Bearer abc", f"Authorization: Bearer {HIDDEN}"),
        ("Proxy-Authorization=Bearer abc", f"Proxy-Authorization=Bearer {HIDDEN}"),
        ("Cookie: a=b; c=d", f"Cookie: {HIDDEN}"),
        ('{"token": "abc"}', f'{{"token": "{HIDDEN}"}}'),
        ('{"password": 12345, "n": 1}', f'{{"password": {HIDDEN}, "n": 1}}'),
        ("{'db_password': 'hunter2', 'n': 1}", f"{{'db_password': '{HIDDEN}', 'n': 1}}"),
    ],
)
def test_what_looks_like_a_secret_is_replaced_inside_a_longer_text(text, left):
    assert redact_text(text) == left
    assert redact({"log": [f"before {text}"]}) == {"log": [f"before {left}"]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the bearer of bad news",
        "sk-learn and task-1234567890abcdef",
        "risk-1234567890abcdef",
        "max_tokens=500, steps=3",
        "https://example.org:8080/a@b",
        "git@github.com:a/b",
        "mailto:someone@example.org",
        "AKIA is a prefix, Asia a continent",
        "eyJhbGciOiJIUzI1NiJ9 alone",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "a secret: don't tell",
        "token: must not be empty",
        "secret: must have at least 32 bytes",
        "input_tokens: 500",
        "if token == other:",
        "the api_key is missing",
        '{"tokens": 5, "author": "x"}',
        "task_0190f3c2-7a1b-7c3d-8e4f-1234567890ab",
        "deadbeef" * 8,
    ],
)
def test_text_without_secrets_stays_as_it_is(text):
    assert redact_text(text) == text


def test_secrets_that_overlap_leave_nothing_between_them():
    policy = RedactionPolicy(sensitive_values=["abc", "bcd", "hunter2"])
    assert policy.redact_text("abcd") == HIDDEN
    assert policy.redact_text("sk-123hunter2abcdef!") == f"{HIDDEN}!"
    # A pattern would stop at the end of the known value, and the known value before the end of the pattern's.
    assert policy.redact_text("password=hunter2/more") == f"password={HIDDEN}"


def test_own_patterns_take_the_place_of_the_default_ones():
    policy = RedactionPolicy(patterns=[r"\d{4}", re.compile(r"pin (?P<secret>\w+)")], replacement="*")
    assert policy.redact({"a": "1234", "b": "pin abcd", "c": "Bearer abcdef1"}) == {
        "a": "*",
        "b": "pin *",
        "c": "Bearer abcdef1",
    }
    both = RedactionPolicy(patterns=[*DEFAULT_PATTERNS, r"\d{4}"])
    assert both.redact_text("1234, Bearer abcdef") == f"{HIDDEN}, Bearer {HIDDEN}"


def test_a_pattern_that_matches_nothing_at_all_changes_nothing():
    assert RedactionPolicy(patterns=["x*"]).redact_text("abxc") == f"ab{HIDDEN}c"


# Known values


def test_known_secrets_are_replaced_wherever_they_occur():
    policy = RedactionPolicy(sensitive_values=["hunter2", "4711"])
    source = {"hunter2": ["my hunter2!", 4711, {"x": "hunter2hunter2"}], HIDDEN: 47110}
    assert policy.redact(source) == {HIDDEN: [f"my {HIDDEN}!", HIDDEN, {"x": HIDDEN}], f"{HIDDEN} 2": 47110}


def test_a_policy_does_not_print_its_secrets():
    assert "hunter2" not in repr(RedactionPolicy(sensitive_values=["hunter2"]))


def test_an_empty_secret_is_no_secret():
    assert RedactionPolicy(sensitive_values=[""]).redact_text("abc") == "abc"


# Lengths and wrong settings


def test_long_texts_are_cut_after_their_secrets_are_gone():
    policy = RedactionPolicy(max_string_length=8)
    assert policy.redact(["12345678", "123456789", {"a long name of a field": "x"}]) == [
        "12345678",
        "1234567…",
        {"a long name of a field": "x"},
    ]
    assert policy.redact_text("ab sk-1234567890abcdef") == "ab [RED…"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"max_string_length": 0}, "max_string_length"),
        ({"max_string_length": True}, "max_string_length"),
        ({"sensitive_values": "hunter2"}, "sensitive_values"),
        ({"sensitive_values": [1]}, "sensitive_values[0]"),
        ({"sensitive_keys": "password"}, "sensitive_keys"),
        ({"patterns": "x"}, "patterns"),
        ({"patterns": ["a", "("]}, "patterns[1]"),
        ({"patterns": [1]}, "patterns[0]"),
        ({"patterns": [b"x"]}, "patterns[0]"),
    ],
)
def test_wrong_settings_are_refused_by_name(wrong, field):
    with pytest.raises(InvalidArgumentError) as excinfo:
        RedactionPolicy(**wrong)
    assert excinfo.value.field == field


# Shapes


def test_values_of_other_types_become_json_first():
    action = RunAction("tool.call", "pay", {"card": ("a", "b"), "password": "x"})
    assert redact({1: action})["1"]["payload"] == {"card": ["a", "b"], "password": HIDDEN}


def test_no_depth_is_too_deep():
    value: Any = "Bearer abcdef1"
    for _ in range(50_000):
        value = [value]
    found = redact(value)
    while isinstance(found, list):
        found = found[0]
    assert found == f"Bearer {HIDDEN}"


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
json_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8) | st.just("password"), inner, max_size=4)
    ),
)


def same_shape(before: Any, after: Any) -> bool:
    if isinstance(before, dict):
        return after == HIDDEN or (
            isinstance(after, dict)
            and len(before) == len(after)
            and all(same_shape(*pair) for pair in zip(before.values(), after.values(), strict=True))
        )
    if isinstance(before, list):
        return after == HIDDEN or (
            isinstance(after, list) and all(same_shape(*pair) for pair in zip(before, after, strict=True))
        )
    return after == HIDDEN or type(before) is type(after)


@given(json_values)
def test_any_json_value_keeps_its_shape_and_redacting_again_changes_nothing(value):
    once = redact(value)
    assert same_shape(value, once)
    assert redact(once) == once


def containers(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return ([value] if isinstance(value, dict | list) else []) + [each for one in inner for each in containers(one)]


@given(json_values)
def test_the_copy_shares_nothing_with_its_source(value):
    ours = {id(each) for each in containers(value)}
    assert not any(id(each) in ours for each in containers(redact(value)))


plain_text = st.text("abc ,.", max_size=12)
harmless = st.recursive(
    st.integers(0, 99) | plain_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(plain_text, inner, max_size=4),
)


@given(harmless)
def test_without_secrets_the_copy_is_equal_and_in_the_same_order(value):
    assert repr(redact(value)) == repr(value)


@given(st.lists(st.tuples(st.text(), st.sampled_from(["hunter2", "s3cr3t"]), st.text()), min_size=1), st.booleans())
def test_a_known_secret_is_never_left_in_any_text_or_name(pieces, as_names):
    policy = RedactionPolicy(sensitive_values=["hunter2", "s3cr3t"])
    texts = ["".join(each) for each in pieces]
    source = dict.fromkeys(texts, 1) if as_names else texts
    left = str(policy.redact(source))
    assert "hunter2" not in left
    assert "s3cr3t" not in left


# Time


@pytest.mark.parametrize(
    ("start", "repeated"),
    [
        ("", "eyJa.eyJ"),
        ("", "eyJ"),
        ("", "sk-a-"),
        ("", "bearer "),
        ("bearer", " "),
        ("", "://a:"),
        ("://a:", "b@"),
        ("", "-----BEGIN PRIVATE KEY-----"),
        ("-----BEGIN PRIVATE KEY-----", "-a"),
        ("", '"password":"'),
        ('"password":"', '\\"'),
        ('"', "api_key"),
        ("", "password="),
        ("", '"secret"' + " " * 500),
        ("", "authorization: basic "),
        ("", "authorization: bearer "),
        ("", "password: "),
        ("", 'token="'),
        ("", "token:'\\"),
        ("api_key", " "),
        ("", "x-api-key-"),
        ("", "cookie:"),
    ],
)
def test_a_text_made_to_be_slow_takes_time_that_is_linear_in_its_length(start, repeated):
    text = start + repeated * (100_000 // len(repeated))
    started = time.process_time()
    assert isinstance(redact_text(text), str)
    assert time.process_time() - started < 2  # seconds; linear time is below 0.1, quadratic time above 10


def test_the_bytes_of_a_payload_are_hidden_and_its_preview_is_searched() -> None:
    payload = Payload(TypedMessage("acme.Login", b"hunter2"), preview='{"password": "hunter2", "user": "ann"}')
    hidden = {"type_name": "acme.Login", "message": HIDDEN, "preview": f'{{"password": "{HIDDEN}", "user": "ann"}}'}
    assert redact({"result": payload}) == {"result": {"$payload": hidden}}
    assert redact(Payload(b"hunter2")) == {"$payload": {"data": HIDDEN}}
    own = {"$payload": {"data": "shown"}, "other": 1}
    assert redact(own) == own
