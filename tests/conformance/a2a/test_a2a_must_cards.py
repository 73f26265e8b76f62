"""Cards: public and extended card, signatures, caching. Numbers are those of the list of requirements."""

import json
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime

import jwt
import pytest
import pytest_asyncio
from a2a.client.card_resolver import parse_agent_card
from a2a.compat.v0_3 import types as v03
from a2a.types import a2a_pb2 as pb
from a2a.utils.signing import create_signature_verifier
from a2a_stage import WIRES, World, agent_with, card, playing
from a2a_wires import V1_NAMES, Json, Refused
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from google.protobuf.json_format import ParseDict

from protolink_grpc import A2AOptions, Agent, InvalidArgumentError
from protolink_grpc.a2a.signing import CardSigner
from protolink_grpc.a2a.values import OWN_SERVICES

pytestmark = pytest.mark.asyncio(loop_scope="module")

CARD = "/.well-known/agent-card.json"
BINDINGS = {
    ("JSONRPC", "1.0"): "jsonrpc",
    ("HTTP+JSON", "1.0"): "rest",
    ("GRPC", "1.0"): "grpc",
    ("JSONRPC", "0.3"): "jsonrpc-0.3",
    ("HTTP+JSON", "0.3"): "rest-0.3",
    ("GRPC", "0.3"): "grpc-0.3",
}

_key = ec.generate_private_key(ec.SECP256R1())
PRIVATE = _key.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
).decode()
PUBLIC = (
    _key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
)


async def card_of(world: World, **headers: str) -> Json:
    response = await world.line.http.get(CARD, headers=headers)
    assert response.status_code == 200
    assert response.headers["content-type"].split(";")[0] == "application/json"
    found: Json = response.json()
    return found


# -- 19 and 20 -----------------------------------------------------------------------------------------------------------


async def test_the_card_is_there_for_everybody_and_says_everything_required(world: World) -> None:
    """19 and 27."""
    found = await card_of(world)
    required = {
        *("name", "description", "supportedInterfaces", "version", "capabilities"),
        *("defaultInputModes", "defaultOutputModes", "skills"),
    }
    assert required <= set(found)
    ParseDict(found, pb.AgentCard(), ignore_unknown_fields=True)
    assert found["name"] == "stage"


async def test_every_interface_of_the_card_answers_as_the_card_says(world: World) -> None:
    """19: each address with its binding and its version."""
    seen = []
    for interface in (await card_of(world))["supportedInterfaces"]:
        binding = BINDINGS[interface["protocolBinding"], interface["protocolVersion"]]
        port = int(interface["url"].rstrip("/").rpartition(":")[2])
        expected = world.agent.card.url if binding.startswith("grpc") else world.url
        assert port == int(expected.rpartition(":")[2])
        assert interface["url"].startswith("http") is not binding.startswith("grpc")
        caller = world.caller(binding)
        assert (await caller.task("hello"))["status"]["state"] == "TASK_STATE_COMPLETED"
        seen.append(binding)
    assert sorted(seen) == sorted(WIRES)
    assert [name for name in seen if name in V1_NAMES] == seen[:3]  # readers take the first of a kind


async def test_the_card_names_the_schemes_by_which_callers_are_known(world: World) -> None:
    """19: what is advertised is what is asked for; without schemes of its own an agent advertises none."""
    found = await card_of(world)
    assert found.get("securityRequirements", []) == []


async def test_a_card_without_capabilities_says_so(bare: World) -> None:
    """19 and 20."""
    capabilities = (await card_of(bare))["capabilities"]
    assert not any(capabilities.get(name) for name in ("streaming", "pushNotifications", "extendedAgentCard"))


async def test_a_card_says_which_capabilities_there_are(world: World) -> None:
    """19 and 20."""
    capabilities = (await card_of(world))["capabilities"]
    assert all(capabilities[name] for name in ("streaming", "pushNotifications", "extendedAgentCard"))


async def test_a_card_says_which_extensions_there_are_and_which_are_demanded(demanding: World) -> None:
    """19 and 21."""
    found = (await card_of(demanding))["capabilities"]["extensions"]
    assert [(each["uri"], each.get("required", False)) for each in found] == [
        ("urn:example:demanded", True),
        ("urn:example:offered", False),
        (OWN_SERVICES, False),
    ]


@pytest.mark.parametrize("operation", ["stream", "subscribe"])
async def test_an_agent_that_does_not_stream_says_so_on_every_binding(
    bare: World, binding: str, operation: str
) -> None:
    """20."""
    caller = bare.caller(binding, "-")
    task = await caller.task("ask what?")
    with pytest.raises(Refused) as refused:
        await (caller.streamed("hello") if operation == "stream" else caller.subscribed(task["id"]))
    assert refused.value.reason == "UNSUPPORTED_OPERATION"
    assert refused.value.code == caller.expected("UNSUPPORTED_OPERATION")


# -- 20 and 22: the extended card ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("binding", V1_NAMES)
async def test_an_agent_without_an_extended_card_does_not_support_it(bare: World, binding: str) -> None:
    """20."""
    caller = bare.caller(binding, "-")
    with pytest.raises(Refused) as refused:
        await caller.extended_card()
    assert refused.value.reason == "UNSUPPORTED_OPERATION"
    assert refused.value.code == caller.expected("UNSUPPORTED_OPERATION")


async def test_an_older_client_of_an_agent_without_an_extended_card_is_told_so_or_shown_the_public_one(
    bare: World,
) -> None:
    """20: v0.3 has one method for both over gRPC and REST."""
    with pytest.raises(Refused) as refused:
        await bare.caller("jsonrpc-0.3", "-").extended_card()
    assert refused.value.reason == "EXTENDED_AGENT_CARD_NOT_CONFIGURED"
    for binding in ("grpc-0.3", "rest-0.3"):
        assert (await bare.caller(binding, "-").extended_card())["name"] == "stage"


async def test_the_extended_card_is_made_for_who_asks(world: World, binding: str) -> None:
    """22."""
    for name in ("alice", "bob"):
        found = await world.caller(binding, name).extended_card()
        assert found["description"] == f"knows {name}"


async def test_who_has_no_extended_card_is_told_so(world: World, binding: str) -> None:
    """22: declared, but not configured for this caller."""
    caller = world.caller(binding, "stranger-1")
    with pytest.raises(Refused) as refused:
        await caller.extended_card()
    assert refused.value.reason == "EXTENDED_AGENT_CARD_NOT_CONFIGURED"
    assert refused.value.code == caller.expected("EXTENDED_AGENT_CARD_NOT_CONFIGURED")


async def test_the_extended_card_is_not_shown_to_callers_without_credentials(world: World, binding: str) -> None:
    """22."""
    with pytest.raises(Refused) as refused:
        await world.caller(binding, "-").extended_card()
    assert refused.value.code in ("UNAUTHENTICATED", 401)
    assert "knows" not in refused.value.message


async def test_an_agent_that_authenticates_nobody_cannot_have_an_extended_card() -> None:
    """22: no caller could ever see it."""
    with pytest.raises(InvalidArgumentError, match="needs an authenticator") as refused:
        agent_with(A2AOptions(extended_card=card()), authenticated=False)
    assert refused.value.field == "a2a.extended_card"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def open_world() -> AsyncIterator[World]:
    """No credentials are needed, and the card is signed."""
    options = A2AOptions(signer=CardSigner(PRIVATE, "k1"), card_max_age_s=77)
    async with playing(agent_with(options, authenticated=False)) as found:
        yield found


# -- 23 ------------------------------------------------------------------------------------------------------------------


async def test_a_signed_card_verifies_by_the_official_sdk(open_world: World) -> None:
    """23: at least one of its signatures; whichever form of the card was asked for."""
    verify = create_signature_verifier(lambda kid, jku: PUBLIC if kid == "k1" else "", ["ES256"])
    found = await card_of(open_world)
    for each in (found, await card_of(open_world, **{"a2a-version": "1.0"})):
        verify(ParseDict(each, pb.AgentCard(), ignore_unknown_fields=True))
    changed = ParseDict(found | {"description": "somebody else"}, pb.AgentCard(), ignore_unknown_fields=True)
    with pytest.raises(Exception, match=r"(?i)signature"):
        verify(changed)


async def test_a_signature_is_over_the_canonical_form_of_the_card(open_world: World) -> None:
    """23: RFC 8785 of the card less its signatures; its header names algorithm, key and type."""
    found = await card_of(open_world, **{"a2a-version": "1.0"})
    signatures = found.pop("signatures")
    # A card of strings, booleans, lists and objects: sorted keys and no blanks are all that the form asks for.
    payload = json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    good = []
    for each in signatures:
        header = jwt.get_unverified_header(f"{each['protected']}..{each['signature']}")
        assert (header["alg"], header["kid"], header["typ"]) == ("ES256", "k1", "JOSE")
        token = f"{each['protected']}.{jwt.utils.base64url_encode(payload).decode()}.{each['signature']}"
        try:
            jwt.PyJWS().decode(token, PUBLIC, ["ES256"])
        except jwt.InvalidSignatureError:
            continue
        good.append(each)
    assert good


# -- 24 ------------------------------------------------------------------------------------------------------------------


async def test_the_card_may_be_kept_and_is_not_sent_again_to_who_has_it(open_world: World) -> None:
    """24."""
    http = open_world.line.http
    first = await http.get(CARD)
    assert "max-age=77" in first.headers["cache-control"]
    assert parsedate_to_datetime(first.headers["last-modified"])
    tag = first.headers["etag"]
    for given in ({"if-none-match": tag}, {"if-none-match": f'"x", W/{tag}'}, {"if-none-match": "*"}):
        again = await http.get(CARD, headers=given)
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    since = await http.get(CARD, headers={"if-modified-since": first.headers["last-modified"]})
    assert since.status_code == 304


async def test_a_changed_card_is_sent_to_who_has_the_old_one(open_world: World) -> None:
    """24."""
    http = open_world.line.http
    old = await http.get(CARD)
    described = open_world.agent.card.description
    open_world.agent.card.description = "another description"
    try:
        new = await http.get(CARD, headers={"if-none-match": old.headers["etag"]})
        assert new.status_code == 200
        assert new.headers["etag"] != old.headers["etag"]
        assert new.json()["description"] == "another description"
    finally:
        open_world.agent.card.description = described
    assert (await http.get(CARD)).headers["etag"] == old.headers["etag"]


# -- 19: both versions in one card ---------------------------------------------------------------------------------------


async def test_the_card_is_one_of_both_versions(world: World) -> None:
    """19: readers of either version find what they need, and each connects to a gRPC interface as it is."""
    found = await card_of(world)
    old = v03.AgentCard.model_validate(found)
    assert old.protocol_version.startswith("0.3")
    addresses = {each.transport: each.url for each in old.additional_interfaces or ()}
    assert addresses[str(old.preferred_transport)] == old.url
    assert set(addresses) == {"JSONRPC", "HTTP+JSON", "GRPC"}
    assert addresses["GRPC"] == world.agent.card.url.removeprefix("grpc://")
    new = ParseDict(found, pb.AgentCard(), ignore_unknown_fields=True)
    assert [each.url for each in new.supported_interfaces if each.protocol_binding == "GRPC"] == [addresses["GRPC"]] * 2
    assert list(parse_agent_card(found).supported_interfaces) == list(new.supported_interfaces)


@pytest.mark.parametrize(
    ("version", "is_strict"), [("1.0", True), ("1.0.1", True), ("0.3", False), ("", False), ("1", False)]
)
async def test_a_reader_that_asks_for_v1_gets_no_field_of_another_version(
    world: World, version: str, is_strict: bool
) -> None:
    """19: one that takes no field that it does not know."""
    found = await card_of(world, **({"a2a-version": version} if version else {}))
    assert ("url" in found) is not is_strict
    if is_strict:
        ParseDict(found, pb.AgentCard())
    else:
        v03.AgentCard.model_validate(found)


async def test_caches_keep_the_two_forms_of_the_card_apart(open_world: World) -> None:
    """24."""
    http = open_world.line.http
    both, new = [await http.get(CARD, headers=given) for given in ({}, {"a2a-version": "1.0"})]
    assert "A2A-Version" in both.headers["vary"]
    assert both.headers["etag"] != new.headers["etag"]
    again = await http.get(CARD, headers={"if-none-match": new.headers["etag"], "a2a-version": "1.0"})
    assert again.status_code == 304
    assert (await http.get(CARD, headers={"if-none-match": new.headers["etag"]})).status_code == 200


LISTED = [
    (("JSONRPC",), ["JSONRPC"]),
    (("HTTP+JSON", "JSONRPC"), ["HTTP+JSON", "JSONRPC"]),
    (("GRPC", "JSONRPC"), ["GRPC", "JSONRPC"]),
    (None, ["JSONRPC", "HTTP+JSON", "GRPC"]),
]


@pytest.mark.parametrize(("interfaces", "listed"), LISTED)
async def test_a_card_lists_the_interfaces_that_its_agent_wants_in_that_order(
    interfaces: tuple[str, ...] | None, listed: list[str]
) -> None:
    """19: some readers refuse a card because of an interface that they do not know."""
    async with playing(agent_with(A2AOptions(interfaces=interfaces), authenticated=False)) as world:
        found = await card_of(world)
        for version in ("1.0", "0.3"):
            ways = [each for each in found["supportedInterfaces"] if each["protocolVersion"] == version]
            assert [each["protocolBinding"] for each in ways] == listed
        assert found["preferredTransport"] == listed[0]
        assert [each["transport"] for each in found["additionalInterfaces"]] == listed
        for binding in V1_NAMES:
            assert (await world.caller(binding).task("hello"))["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("interfaces", [(), ("gRPC",), ("JSONRPC", "JSONRPC"), ("JSONRPC", "WS")])
async def test_interfaces_that_no_card_can_list_are_refused(interfaces: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        A2AOptions(interfaces=interfaces)
    assert refused.value.field == "interfaces"


async def test_a_card_without_any_interface_that_is_served_is_refused_at_start() -> None:
    agent = Agent(name="web", url="http://127.0.0.1:0", a2a=A2AOptions(interfaces=("GRPC",)))
    with pytest.raises(InvalidArgumentError, match="has no port for it"):
        await agent.serve()
    assert not agent.is_running


async def test_a_card_that_is_not_public_is_shown_to_callers_with_credentials_only() -> None:
    """19: by option; then no cache stores it."""
    async with playing(agent_with(A2AOptions(public_card=False))) as private:
        http = private.line.http
        unknown = await http.get(CARD)
        assert unknown.status_code == 401
        assert unknown.headers["www-authenticate"]
        known = await http.get(CARD, headers={"authorization": "Bearer alice"})
        assert known.status_code == 200
        assert known.headers["cache-control"].startswith("private")
