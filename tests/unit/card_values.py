"""Cards and values of the registry for tests: arbitrary ones, and ones with all fields set."""

import string

from hypothesis import strategies as st
from wire_values import FACTS, json_values, objects, texts

from protolink_grpc.models.card import AgentCapabilities, AgentCard, AgentCardSignature, AgentInterface, AgentSkill
from protolink_grpc.wire.registry import (
    AgentChange,
    AgentChangeKind,
    AgentFilter,
    InstanceState,
    InstanceStatus,
    RegisteredAgent,
)

filled = st.text(string.ascii_letters, min_size=1, max_size=8)
capabilities = st.builds(
    AgentCapabilities,
    **{name: st.booleans() for name, value in AgentCapabilities().as_dict().items() if isinstance(value, bool)},
    max_concurrency=st.integers(0, 2**31 - 1),
    supports_inference=st.none() | st.booleans(),
)
skills = st.builds(
    AgentSkill,
    id=filled,
    description=texts,
    input_schema=objects,
    output_schema=objects,
    tags=st.lists(texts, max_size=3),
    examples=st.lists(json_values, max_size=3),
)
scopes = st.dictionaries(texts, texts, max_size=2)
flow = st.fixed_dictionaries(
    {"scopes": scopes},
    optional={
        **dict.fromkeys(("authorizationUrl", "tokenUrl", "deviceAuthorizationUrl", "refreshUrl"), filled),
        "pkceRequired": st.just(True),
    },
)
FLOWS = ("authorizationCode", "clientCredentials", "implicit", "password", "deviceCode")
flows = st.fixed_dictionaries({}, optional=dict.fromkeys(FLOWS, flow)).filter(bool)


def of_type(kind: str, **facts: st.SearchStrategy) -> st.SearchStrategy:
    """Expected schemes after a conversion: ProtoLink's four keys, and the given keys of the type."""
    scheme = st.none() | filled if kind == "http" else st.none()
    four = {"type": st.just(kind), "scheme": scheme, "description": texts, "metadata": objects}
    return st.fixed_dictionaries(four, optional=facts)


KNOWN_SCHEMES = {
    "apiKey": of_type("apiKey", **{"in": st.sampled_from(["header", "query", "cookie", "unknown-7"]), "name": filled}),
    "http": of_type("http", bearerFormat=filled),
    "oauth2": of_type("oauth2", flows=flows, oauth2MetadataUrl=filled),
    "openIdConnect": of_type("openIdConnect", openIdConnectUrl=filled),
    "mutualTLS": of_type("mutualTLS"),
}
custom = st.builds(
    lambda kind, facts, four: {**facts, **four, "type": f"x-{kind}"},
    filled,
    objects,
    st.fixed_dictionaries({"scheme": st.none() | filled, "description": texts, "metadata": objects}),
)
schemes = st.dictionaries(texts, st.one_of(custom, *KNOWN_SCHEMES.values()), max_size=2)
interfaces = st.builds(AgentInterface, filled, filled, texts)
signatures = st.builds(AgentCardSignature, filled, filled, objects)
cards = st.builds(
    AgentCard,
    name=filled,
    description=filled,
    url=filled,
    transport=filled,
    version=texts,
    protocol_version=filled,
    capabilities=capabilities,
    skills=st.lists(skills, max_size=3, unique_by=lambda skill: skill.id),
    input_formats=st.lists(texts, max_size=3),
    output_formats=st.lists(texts, max_size=3),
    security_schemes=schemes,
    role=texts,
    tags=st.lists(texts, max_size=3),
    interfaces=st.lists(interfaces, max_size=2),
    metadata=st.dictionaries(texts, texts, max_size=3),
    features=st.lists(filled.map("x-{}".format), max_size=3, unique=True),
    signatures=st.lists(signatures, max_size=2),
)
text_tuples = st.lists(texts, max_size=3).map(tuple)
filters = st.builds(
    AgentFilter,
    name=texts,
    role=texts,
    tags=text_tuples,
    skills=text_tuples,
    metadata=st.dictionaries(texts, texts, max_size=3),
    features=text_tuples,
)
counts = st.integers(0, 2**31 - 1)
statuses = st.builds(InstanceStatus, st.none() | st.sampled_from(InstanceState), counts, counts)
moments = st.integers(0, 2**32).map(lambda quarters: quarters / 4)  # a double holds them to the microsecond
agents = st.builds(
    RegisteredAgent,
    cards,
    counts,
    moments,
    moments,
    texts,
    texts,
    st.sampled_from(InstanceState),
    counts,
    counts,
)
changes = st.builds(AgentChange, st.sampled_from(AgentChangeKind), agents, counts)

FULL_SKILL = AgentSkill("s", "d", FACTS, FACTS, ["t"], [FACTS])
FULL_SIGNATURE = AgentCardSignature("p", "s", FACTS)
FULL_CARD = AgentCard(
    *("n", "d", "u", "http", "2.0.0", "1.1"),
    AgentCapabilities(**dict.fromkeys(AgentCapabilities().as_dict(), True) | {"max_concurrency": 2}),
    [FULL_SKILL],
    ["text/plain"],
    ["text/markdown"],
    {"key": {"type": "apiKey", "scheme": None, "in": "header", "name": "X-Key", "description": "d", "metadata": {}}},
    "observer",
    ["t"],
    [AgentInterface("u2", "grpc", "1.0")],
    {"k": "v"},
    ["teleport"],
    [FULL_SIGNATURE],
)
FULL_AGENT = RegisteredAgent(FULL_CARD, 7, 1.25, 2.5, "i-1", "alice", InstanceState.DRAINING, 2, 3)
