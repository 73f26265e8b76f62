"""The REST binding follows its own OpenAPI description: schemathesis sends allowed and forbidden requests.

Two of schemathesis's checks are replaced by stricter ones of ours: what is accepted must be valid (ProtoJSON's other spellings set
aside), and what is valid is not called invalid (a task's state may still be in the way). One is left to a test of its own below.
"""

import re
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import jsonschema_rs
import orjson
import pytest
import schemathesis
from hostile_world import V1, Hostile, hostile_world
from schemathesis.engine import events, from_schema

from protolink_grpc.a2a.edge.openapi import openapi_json
from protolink_grpc.models.card import AgentCard

Json = dict[str, Any]

SEED = 4
EXAMPLES = 10
"""Of each operation in each phase."""

REACHED = {
    "POST /message:send",
    "POST /message:stream",
    "GET /tasks",
    "GET /tasks/{id}",
    "POST /tasks/{id}/pushNotificationConfigs",
    "GET /tasks/{id}/pushNotificationConfigs",
}
"""What must have been carried out, else the campaign says little. The others need a task in a certain state, or luck."""

LEFT_OUT = ("positive_data_acceptance", "negative_data_rejection", "allow_header_conformance")

STATEFUL_FIELDS = {"pageToken", "message.contextId", "Last-Event-ID"}
"""What may be valid as such and wrong for this agent."""

KNOWN_LENIENCE = ("config: ",)
"""What a test at the end of this file expects to fail."""

DESCRIPTION: Json = openapi_json(AgentCard(name="mirror", description="shows what it is sent", url="grpc://h:1"))


@pytest.fixture(scope="module")
def world() -> Iterator[Hostile]:
    with hostile_world() as found:
        yield found


@pytest.fixture(autouse=True)
def unharmed(world: Hostile) -> Iterator[None]:
    with world.within(32 << 20):
        yield
        world.still_answers()
        world.comes_to_rest()
    assert not world.complaints()


# -- what a request is, by the description -------------------------------------------------------------------------------


def resolved(schema: Json) -> Json:
    while "$ref" in schema:
        schema = DESCRIPTION["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def canonical(value: Any, schema: Json) -> Any:
    """The value in ProtoJSON's canonical spelling: no null for absent, camelCase, numbers as such, plain padded base64."""
    schema = resolved(schema)
    if isinstance(value, dict):
        branches = [schema, *map(resolved, schema.get("oneOf", ()))]
        known = {name: each for branch in branches for name, each in branch.get("properties", {}).items()}
        found: Json = {}
        for name, each in value.items():
            camel = name if name in known else re.sub("_([a-z])", lambda hit: hit[1].upper(), name)
            if each is not None or known.get(camel) == {} or camel not in known:
                found[camel if camel in known else name] = canonical(each, known.get(camel, {}))
        return found
    if isinstance(value, list):
        return [canonical(each, schema.get("items", {})) for each in value]
    if isinstance(value, str) and schema.get("type") == "integer" and re.fullmatch(r"-?\d+", value, re.ASCII):
        return int(value)
    if isinstance(value, str) and schema.get("contentEncoding") == "base64":
        plain = value.translate(str.maketrans("-_", "+/")).rstrip("=")
        return plain + "=" * (-len(plain) % 4)
    return value


@cache
def validator(schema: bytes) -> jsonschema_rs.Draft202012Validator:
    whole = {"allOf": [orjson.loads(schema)], "components": DESCRIPTION["components"]}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)


def problem(value: Any, schema: Json) -> str:
    """Why it is not valid; empty where it is."""
    if schema.get("maxLength") == 128 and len(str(value).encode()) > 128:
        return "JSON Schema counts characters, ids are counted in bytes"
    wrong = validator(orjson.dumps(schema)).iter_errors(value)
    return next((f"{each.message} at {each.instance_path}" for each in wrong), "")


def operation_of(method: str, path: str) -> tuple[str, Json, dict[str, str]] | None:
    """Template, description and path parameters of a request; the longest template that fits is meant."""
    for template, methods in sorted(DESCRIPTION["paths"].items(), key=lambda each: -len(each[0])):
        hit = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", template), path)
        if hit and method.lower() in methods:
            return template, methods[method.lower()], {name: unquote(text) for name, text in hit.groupdict().items()}
    return None


def query_value(text: str, schema: Json) -> Any:
    if schema["type"] == "boolean":
        return {"true": True, "false": False}.get(text, text)
    return canonical(text, schema)


def problems_of(method: str, url: str, headers: Any, body: bytes) -> list[str]:
    """What the description has against a request."""
    split = urlsplit(url)
    known = operation_of(method, split.path)
    if known is None:
        return [f"{method} {split.path} is not described"]
    _, operation, path = known
    given = {"query": dict(parse_qsl(split.query)), "path": path, "header": headers}
    found = []
    for parameter in operation["parameters"]:
        text = given[parameter["in"]].get(parameter["name"])
        if text:
            wrong = problem(query_value(text, parameter["schema"]), parameter["schema"])
            found += [f"{parameter['name']}: {wrong}"] if wrong else []
        elif parameter["required"]:
            found.append(f"{parameter['name']} is missing")
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        wrong = problem(canonical(orjson.loads(body or b"{}"), schema), schema)
        found += [wrong] if wrong else []
    return found


def problems_with(request: Any) -> list[str]:
    body = request.body.encode() if isinstance(request.body, str) else request.body or b""
    return problems_of(request.method, request.url, request.headers, body)


@schemathesis.check
def what_is_accepted_is_valid(ctx: Any, response: Any, case: Any) -> None:
    if response.status_code == 200 and response.request.method in ("GET", "POST", "DELETE"):
        # The same version with a patch is the same version.
        passed_over = ("A2A-Version: ", *KNOWN_LENIENCE)
        wrong = [each for each in problems_with(response.request) if not each.startswith(passed_over)]
        assert not wrong, wrong


@schemathesis.check
def what_is_valid_is_not_called_invalid(ctx: Any, response: Any, case: Any) -> None:
    if response.status_code != 400 or case.meta is None or not case.meta.generation.mode.is_positive:
        return
    details = orjson.loads(response.content)["error"].get("details", [{}])
    fields = [each["field"] for detail in details for each in detail.get("fieldViolations", ())]
    if details[0].get("reason") == "INVALID_ARGUMENT" and not STATEFUL_FIELDS.issuperset(fields):
        # Schemathesis's notion of an assigned character is not ours, so what it made is looked at again.
        assert problems_with(response.request), details


@schemathesis.check
def an_error_repeats_its_status(ctx: Any, response: Any, case: Any) -> None:
    if response.status_code >= 400:
        error = orjson.loads(response.content)["error"]
        assert error["code"] == response.status_code
        if response.status_code != 405:  # refused before it is A2A's
            assert error["details"][0]["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"


# -- the campaign --------------------------------------------------------------------------------------------------------


def easily_met(description: Json) -> Json:
    """The same with ids of letters only, so that more of what is made of it is a request that is carried out."""
    narrow = deepcopy(description)
    for name in ("NewMessage", "NewPushConfig", "SendMessageRequest", "CancelTaskRequest"):
        for each in narrow["components"]["schemas"][name]["properties"].values():
            for schema in (each, each.get("items", {})):
                if schema.get("maxLength") == 128:
                    schema["pattern"] = "^[a-z]*$"
    for operation in (each for methods in narrow["paths"].values() for each in methods.values()):
        if "requestBody" in operation:
            del operation["requestBody"]["content"]["application/a2a+json"]  # the same, and as long again
    return narrow


def config() -> Any:
    return schemathesis.Config.from_dict(
        {
            "seed": SEED,
            "request-timeout": 10,
            "generation": {"max-examples": EXAMPLES, "deterministic": True, "database": "none", "no-shrink": True},
            "checks": {name: {"enabled": False} for name in LEFT_OUT},
            # It reads what SendMessage reads: a third of the time for nothing new.
            "operations": [
                {"include-operation-id": "SendStreamingMessage", "phases": {"coverage": {"enabled": False}}}
            ],
        }
    )


def failures_of(schema: Any, answers: Counter[tuple[str, int]]) -> Iterator[str]:
    """One sentence per failed check; counts who answered what."""
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError):
            yield f"{event.label}: {event.value!r}"
        elif isinstance(event, events.FatalError):
            yield repr(event.exception)
        elif isinstance(event, events.ScenarioFinished):
            recorder = event.recorder
            for name, exchange in recorder.interactions.items():
                label = recorder.cases[name].value.operation.label
                answers[label, exchange.response.status_code if exchange.response is not None else 0] += 1
            for checks in recorder.checks.values():
                for check in checks:
                    if check.failure_info is not None:
                        failure = check.failure_info
                        yield f"{check.name}: {failure.failure}\n{failure.code_sample}"


@pytest.mark.timeout(300)
def test_the_rest_binding_keeps_what_its_description_promises(world: Hostile) -> None:
    told = world.http.get("/openapi.json").json()
    assert told["paths"].keys() == DESCRIPTION["paths"].keys()
    schema = schemathesis.openapi.from_dict(easily_met(told), config=config())
    schema.config.base_url = world.url
    answers: Counter[tuple[str, int]] = Counter()
    failures = list(failures_of(schema, answers))
    assert not failures, f"{len(failures)}, the first of them:\n" + "\n\n".join(failures[:5])
    assert {label for label, status in answers if status == 200} >= REACHED, answers
    assert not [label for label, status in answers if status == 0 or status >= 500]


# -- what the description says of itself ---------------------------------------------------------------------------------


def test_every_reference_of_the_description_leads_somewhere() -> None:
    text = orjson.dumps(DESCRIPTION).decode()
    named = set(re.findall(r'"\$ref":"#/components/schemas/(\w+)"', text))
    assert "Task" in named
    assert named <= DESCRIPTION["components"]["schemas"].keys()


@pytest.mark.parametrize(
    "name", ["Task", "Message", "Part", "Artifact", "PushConfig", "StatusUpdate", "ArtifactUpdate"]
)
def test_an_answer_has_no_field_that_is_not_described(name: str) -> None:
    schema = resolved({"$ref": name})
    for shape in schema.get("oneOf", [schema]):
        assert shape["additionalProperties"] is False


# -- single answers --------------------------------------------------------------------------------------------------------


def test_the_body_of_a_415_says_415(world: Hostile) -> None:
    answer = world.http.post("/message:send", content=b"{}", headers=V1 | {"content-type": "text/plain"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, 415)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_the_id_of_a_push_config_is_checked_on_every_binding(world: Hostile, method: str) -> None:
    task = world.finished_task()
    answer = world.http.request(method, f"/tasks/{task}/pushNotificationConfigs/{'x' * 200}", headers=V1)
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/tasks/1:subscribe", {"GET", "POST"}),
        ("/tasks/1/pushNotificationConfigs", {"GET", "POST"}),
        ("/tasks/1/pushNotificationConfigs/1", {"GET", "DELETE"}),
    ],
)
def test_a_405_names_every_method_of_its_path(world: Hostile, path: str, methods: set[str]) -> None:
    answer = world.http.put(path, headers=V1)
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) - {"HEAD"} == methods


def test_a_405_is_json_too(world: Hostile) -> None:
    answer = world.http.put("/message:send", headers=V1)
    assert answer.json()["error"]["code"] == 405
