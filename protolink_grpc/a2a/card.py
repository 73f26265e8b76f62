"""A2A agent cards: writes a card as v1.0, as v1.0 with the v0.3 fields added, and as protobuf; reads cards of other agents.

Fields that A2A marks as REQUIRED are always present. A security scheme that A2A cannot express correctly is omitted.
"""

import hashlib
from contextlib import suppress
from typing import Any, Final

from a2a.types import a2a_pb2 as pb
from google.protobuf import json_format

from protolink_grpc.a2a.json_reader import Source, array, as_object, flag, mapping, nested, snake_case, text, texts
from protolink_grpc.a2a.values import V03, V1, Binding, PublicCard
from protolink_grpc.errors import InvalidArgumentError
from protolink_grpc.models.card import AgentCapabilities, AgentCard, AgentCardSignature, AgentInterface, AgentSkill
from protolink_grpc.models.json_value import canonical_json, plain, to_json

Json = dict[str, Any]

V03_PROTOCOL: Final = "0.3.0"
"""Value of `protocolVersion` in a v0.3 card."""

_TRANSPORTS: Final = {"GRPC": "grpc", "JSONRPC": "json-rpc", "HTTP+JSON": "http"}

_WRAPPERS: Final = {
    "apiKey": "apiKeySecurityScheme",
    "http": "httpAuthSecurityScheme",
    "oauth2": "oauth2SecurityScheme",
    "openIdConnect": "openIdConnectSecurityScheme",
    "mutualTLS": "mtlsSecurityScheme",
}
"""The `type` of a security scheme, and the field that holds such a scheme in v1.0."""

_FLOWS: Final = {
    "authorizationCode": ("authorizationUrl", "tokenUrl"),
    "clientCredentials": ("tokenUrl",),
    "implicit": ("authorizationUrl",),
    "password": ("tokenUrl",),
    "deviceCode": ("deviceAuthorizationUrl", "tokenUrl"),
}
"""OAuth 2 flows, and the URLs that each requires."""


# -- writing -------------------------------------------------------------------------------------------------------------


def card_json(public: PublicCard) -> Json:
    """Return the v1.0 card."""
    card = public.card
    found: Json = {
        "name": card.name,
        "description": card.description,
        "supportedInterfaces": [_interface_json(binding) for binding in public.bindings],
        "version": card.version,
        "capabilities": _capabilities_json(public),
        "defaultInputModes": list(card.input_formats) or ["text/plain"],
        "defaultOutputModes": list(card.output_formats) or ["text/plain"],
        "skills": [_skill_json(skill) for skill in card.skills],
    }
    if public.provider_organization or public.provider_url:
        found["provider"] = {"organization": public.provider_organization, "url": public.provider_url}
    if public.documentation_url:
        found["documentationUrl"] = public.documentation_url
    if public.icon_url:
        found["iconUrl"] = public.icon_url
    schemes = _wrap_schemes(card.security_schemes or {})
    if schemes:
        found["securitySchemes"] = schemes
        found["securityRequirements"] = [
            {"schemes": {name: {"list": []}}} for name in schemes
        ]  # any one of them is sufficient
    return found


def _interface_json(binding: Binding) -> Json:
    found = {"url": binding.url, "protocolBinding": binding.protocol, "protocolVersion": binding.version}
    if binding.tenant:
        found["tenant"] = binding.tenant
    return found


def _capabilities_json(public: PublicCard) -> Json:
    found: Json = {
        "streaming": public.streaming,
        "pushNotifications": public.push_notifications,
        "extendedAgentCard": public.extended_card,
    }
    if public.extensions:
        found["extensions"] = [
            _without_empty(
                uri=each.uri, description=each.description, required=each.required, params=plain(each.params)
            )
            for each in public.extensions
        ]
    return found


def _without_empty(**fields: Any) -> Json:
    return {name: each for name, each in fields.items() if each}


def _skill_json(skill: AgentSkill) -> Json:
    """Return a skill. A2A requires a name and at least one tag; if our skill lacks them, they are derived from its id."""
    words = skill.id.replace("_", " ").replace("-", " ").strip() or skill.id
    name = words[:1].upper() + words[1:]
    found = {"id": skill.id, "name": name, "description": skill.description or name, "tags": skill.tags or [skill.id]}
    if skill.examples:
        found["examples"] = [each if isinstance(each, str) else to_json(each) for each in skill.examples]
    return found


def dual_card_json(public: PublicCard) -> Json:
    """Return the v1.0 card with the v0.3 fields added, or without them if v0.3 is not served."""
    found = card_json(public)
    old = [binding for binding in public.bindings if binding.version == V03]
    if not old:
        return found
    # A gRPC interface is `host:port` in v0.3, too: gRPC clients of every language accept this form.
    interfaces = [{"url": binding.url, "transport": binding.protocol} for binding in old]
    found["url"] = interfaces[0]["url"]
    found["preferredTransport"] = interfaces[0]["transport"]
    found["additionalInterfaces"] = interfaces
    found["protocolVersion"] = V03_PROTOCOL
    if public.extended_card:
        found["supportsAuthenticatedExtendedCard"] = True
    if "securitySchemes" in found:
        for wrapped in found["securitySchemes"].values():
            wrapped.update(_flatten_scheme(wrapped))  # a scheme that v0.3 does not define stays in the v1.0 form only
        found["security"] = [{name: []} for name, wrapped in found["securitySchemes"].items() if "type" in wrapped]
    return found


def _wrap_schemes(schemes: dict[str, Json]) -> Json:
    """Return the schemes, by name, each in its v1.0 wrapper."""
    found: Json = {}
    for name, scheme in schemes.items():
        content = _scheme_content(scheme)
        if content is not None:
            found[name] = {_WRAPPERS[scheme["type"]]: (_text_fields(scheme, "description") or {}) | content}
    return found


def _field(source: Json, name: str) -> Any:
    found = source.get(name)
    return source.get(snake_case(name)) if found is None else found


def _text_fields(source: Json, *names: str) -> Json | None:
    """Return these fields if all of them are non-empty texts, otherwise None."""
    found = {name: _field(source, name) for name in names}
    return found if all(isinstance(each, str) and each for each in found.values()) else None


def _scheme_content(scheme: Json) -> Json | None:
    """Return the content of the v1.0 wrapper without the description; None for a scheme that v1.0 cannot express."""
    match scheme.get("type"):
        case "apiKey":
            content = _text_fields(scheme, "in", "name")
            if content is None or content["in"] not in ("header", "query", "cookie"):
                return None
            return {"location": content["in"], "name": content["name"]}
        case "http":
            content = _text_fields(scheme, "scheme")
            return None if content is None else content | (_text_fields(scheme, "bearerFormat") or {})
        case "oauth2":
            flows = _flows_json(_field(scheme, "flows"))
            return None if flows is None else {"flows": flows} | (_text_fields(scheme, "oauth2MetadataUrl") or {})
        case "openIdConnect":
            return _text_fields(scheme, "openIdConnectUrl")
        case "mutualTLS":
            return _text_fields(scheme, "description") or {"description": "Client certificate"}
        case _:
            return None


def _flows_json(flows: Any) -> Json | None:
    """Return the first complete flow, in the order of `_FLOWS`; v1.0 allows only one. None if no flow is complete."""
    if not isinstance(flows, dict):
        return None
    for name, urls in _FLOWS.items():
        flow = _field(flows, name)
        found = _text_fields(flow, *urls) if isinstance(flow, dict) else None
        if found is None:
            continue
        scopes = flow.get("scopes")
        found["scopes"] = {str(key): str(each) for key, each in scopes.items()} if isinstance(scopes, dict) else {}
        if _field(flow, "pkceRequired") is True and name == "authorizationCode":
            found["pkceRequired"] = True
        return {name: found | (_text_fields(flow, "refreshUrl") or {})}
    return None


def card_pb(public: PublicCard) -> pb.AgentCard:
    return json_format.ParseDict(card_json(public), pb.AgentCard())


def etag(card: Json) -> str:
    """Return a strong entity tag; equal cards have equal tags."""
    return f'"{hashlib.sha256(canonical_json(card).encode()).hexdigest()[:32]}"'


# -- reading -------------------------------------------------------------------------------------------------------------


def card_from_a2a(found: object) -> AgentCard:
    """Read the card of another agent, v1.0 or v0.3. Its `url` is the first v1.0 interface, or else the first interface.

    Raises:
        InvalidArgumentError: No name, no interface, or a field of the wrong type; names the field.
    """
    source = as_object(found)
    interfaces = _read_interfaces(source)
    if not interfaces:
        raise InvalidArgumentError("must name at least one interface", field="supportedInterfaces")
    best = next((each for each in interfaces if each.protocol_version.startswith("1.")), interfaces[0])
    name = text(source, "name")
    return AgentCard(
        name=name,
        description=text(source, "description") or name,
        url=best.url,
        transport=best.transport,
        version=text(source, "version") or "1.0.0",
        protocol_version=best.protocol_version,
        capabilities=nested(source, "capabilities", _read_capabilities) or AgentCapabilities(),
        skills=_read_each(source, "skills", _read_skill),
        input_formats=list(texts(source, "defaultInputModes")) or ["text/plain"],
        output_formats=list(texts(source, "defaultOutputModes")) or ["text/plain"],
        security_schemes=_flatten_schemes(source),
        interfaces=[each for each in interfaces if each is not best],
        signatures=_read_signatures(source),
    )


def _read_each(source: Source, name: str, read: Any) -> list[Any]:
    found: list[Any] = []
    try:
        for item in array(source, name):
            found.append(read(as_object(item)))  # noqa: PERF401  # its length is the index in the error below
    except InvalidArgumentError as error:
        raise error.within(f"{name}[{len(found)}]") from None
    return found


def _read_interfaces(source: Source) -> list[AgentInterface]:
    new: list[AgentInterface] = _read_each(source, "supportedInterfaces", _read_interface)
    if new:
        return new
    old = [
        AgentInterface(text(source, "url"), _transport_of(text(source, "preferredTransport") or "JSONRPC"), V03),
        *_read_each(source, "additionalInterfaces", _read_v03_interface),
    ]
    found: dict[tuple[str, str], AgentInterface] = {}  # the main interface may be repeated in additionalInterfaces
    for each in old:
        if each.url:
            found.setdefault((each.url, each.transport), each)
    return list(found.values())


def _read_interface(source: Source) -> AgentInterface:
    binding, version = text(source, "protocolBinding"), text(source, "protocolVersion")
    return AgentInterface(text(source, "url"), _transport_of(binding), version or V1)


def _read_v03_interface(source: Source) -> AgentInterface:
    return AgentInterface(text(source, "url"), _transport_of(text(source, "transport")), V03)


def _transport_of(binding: str) -> str:
    """Return our name of a binding; an unrecognized binding keeps its name."""
    return _TRANSPORTS.get(binding, binding)


def _read_capabilities(source: Source) -> AgentCapabilities:
    return AgentCapabilities(
        streaming=flag(source, "streaming"), push_notifications=flag(source, "pushNotifications"), delegation=False
    )


def _read_skill(source: Source) -> AgentSkill:
    skill_id = text(source, "id") or text(source, "name")
    if not skill_id:
        raise InvalidArgumentError("must be a non-empty string", field="id")
    description = text(source, "description") or text(source, "name")
    return AgentSkill(skill_id, description, tags=list(texts(source, "tags")), examples=list(texts(source, "examples")))


def _read_signatures(source: Source) -> list[AgentCardSignature]:
    """Return the signatures, unverified. Malformed ones are omitted: this package does not rely on them here."""
    found = []
    for each in array(source, "signatures"):
        with suppress(InvalidArgumentError):
            found.append(AgentCardSignature.from_dict(each))
    return found


def _flatten_schemes(source: Source) -> dict[str, Json]:
    """Return the schemes in the form with a `type`, as in our cards; schemes of an unrecognized type are omitted."""
    found: dict[str, Json] = {}
    for name, scheme in (mapping(source, "securitySchemes") or {}).items():
        if not isinstance(scheme, dict):
            raise InvalidArgumentError("must be an object", field=f"securitySchemes.{name}")
        kind = scheme.get("type")
        flat = scheme if isinstance(kind, str) and kind in _WRAPPERS else _flatten_scheme(scheme)
        if flat:
            found[name] = {key: plain(each) for key, each in flat.items() if key not in _WRAPPERS.values()}
    return found


def _flatten_scheme(wrapped: Json) -> Json:
    """Return a v1.0 scheme in the form of v0.3 and our cards; empty if it is unrecognized or uses a flow that is new in v1.0."""
    for kind, wrapper in _WRAPPERS.items():
        content = _field(wrapped, wrapper)
        if not isinstance(content, dict):
            continue
        flat = {"type": kind} | {("in" if key == "location" else key): plain(each) for key, each in content.items()}
        return {} if "deviceCode" in flat.get("flows", {}) else flat
    return {}
