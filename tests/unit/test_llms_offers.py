"""The tools and peers that the prompts of an inference offer, as the log has them."""

from dataclasses import replace

import pytest
from llm_stage import BOOK, GUIDE, HOTEL, REQUEST, WEATHER

from protolink_grpc.llms.answers import AGENT_TOOL, DELEGATE_TOOL, READ_ARTIFACT
from protolink_grpc.llms.context_artifacts import READ_TOOL
from protolink_grpc.llms.offers import Offers
from protolink_grpc.llms.prompt import delegation_tools
from protolink_grpc.models.action import PolicyEffect
from protolink_grpc.models.tool import OfferedTool

PAY = OfferedTool("book", "mcp:hotel", destructive=True, effect=PolicyEffect.REQUIRE_APPROVAL)
PEERS = [OfferedTool(each.name, f"agent:{each.name}", effect=PolicyEffect.ALLOW) for each in (GUIDE, HOTEL)]
READ = OfferedTool(READ_ARTIFACT, "local", read_only=True, idempotent=True, effect=PolicyEffect.ALLOW)
ASKED = replace(REQUEST, offered=[PAY, *PEERS])
ALL = (WEATHER, BOOK, *delegation_tools(ASKED))


def names(offers: Offers, tools: object = ALL, *, has_artifacts: bool = False) -> list[str]:
    return [each.name for each in offers.offered(tools, has_artifacts=has_artifacts).tools]  # type: ignore[arg-type]


def test_an_offer_has_the_facts_of_the_tools_and_peers_in_the_order_of_the_prompt() -> None:
    found = Offers(ASKED, native_tools=True).offered(ALL, has_artifacts=False).tools
    assert found == (OfferedTool("weather", read_only=True), PAY, *PEERS)


def test_equal_prompts_have_the_same_offer() -> None:
    offers = Offers(ASKED, native_tools=True)
    assert offers.offered(ALL, has_artifacts=False) is offers.offered(list(ALL), has_artifacts=False)


@pytest.mark.parametrize("native", [True, False])
def test_what_the_prompt_does_not_have_is_not_offered(native: bool) -> None:
    offers = Offers(ASKED, native_tools=native)
    assert names(offers, ()) == ([] if native else ["guide", "hotel"])
    assert "weather" not in names(offers, (BOOK,))


def test_a_peer_is_offered_while_one_of_the_delegation_tools_names_it() -> None:
    offers = Offers(ASKED, native_tools=True)
    for tool, expected in ((DELEGATE_TOOL, ["guide"]), (AGENT_TOOL, ["hotel"])):
        assert names(offers, [each for each in ALL if each.name == tool]) == expected


def test_a_shortened_result_offers_its_reader() -> None:
    native, contract = (Offers(ASKED, native_tools=each) for each in (True, False))
    assert native.offered((READ_TOOL,), has_artifacts=True).tools == (READ,)
    assert contract.offered((WEATHER,), has_artifacts=True).tools[-1] == READ
    assert READ_ARTIFACT not in names(native, (WEATHER,), has_artifacts=True), "a hook has removed it"
