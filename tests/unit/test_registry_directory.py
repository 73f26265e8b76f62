"""The directory: leases, ownership, lookup, pages, expiry."""

from dataclasses import replace

import pytest

from protolink_grpc.errors import (
    AgentConflictError,
    AgentNotFoundError,
    InvalidArgumentError,
    LeaseNotFoundError,
    ResourceExhaustedError,
)
from protolink_grpc.models.card import AgentCapabilities, AgentCard
from protolink_grpc.registry import AgentDirectory, AgentFilter, InstanceState, InstanceStatus


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def directory(clock):
    return AgentDirectory(clock=clock)


def card(name, port=1, **fields):
    return AgentCard(name, "d", f"grpc://{name}:{port}", **fields)


def names(page):
    return [agent.card.name for agent in page.agents]


def test_a_card_of_more_than_a_mebibyte_is_not_registered(directory):
    with pytest.raises(InvalidArgumentError, match="a card has at most 1,048,576") as caught:
        directory.register(card("large", metadata={"k": "v" * (1 << 20)}), "alice")
    assert caught.value.field == "card"
    assert directory.list().agents == ()


def test_a_registered_agent_is_found_by_name_and_by_url(directory):
    granted = directory.register(card("a"), "alice")
    found = directory.get("a")
    assert found == directory.get("grpc://a:1")
    assert found.card == card("a")
    assert found.revision == granted.revision == directory.revision
    assert (found.register_time, found.expire_time) == (1_000.0, 1_030.0)


def test_the_directory_copies_registered_cards(directory):
    mine = card("a", tags=["x"])
    directory.register(mine, "alice")
    mine.tags.append("y")
    assert names(directory.list(AgentFilter(tags=["y"]))) == []


def test_changes_of_a_returned_card_do_not_affect_its_removal(directory):
    granted = directory.register(card("a", tags=["x"]), "alice")
    seen = directory.get("a").card
    seen.name, seen.tags = "b", ["y"]
    assert directory.deregister(granted.lease_id, "alice")
    assert names(directory.list()) == names(directory.list(AgentFilter(tags=["x"]))) == []


def test_a_lease_expires_at_its_end_and_not_before(directory, clock):
    directory.register(card("a"), "alice", lease_ttl_s=10)
    clock.now += 9.999
    assert names(directory.list()) == ["a"]
    clock.now += 0.001
    assert names(directory.list()) == []
    with pytest.raises(AgentNotFoundError):
        directory.get("a")
    with pytest.raises(AgentNotFoundError):
        directory.get("grpc://a:1")


def test_every_heartbeat_renews_the_lease(directory, clock):
    granted = directory.register(card("a"), "alice", lease_ttl_s=2)
    for _ in range(600):
        clock.now += 1.9
        assert directory.renew(granted.lease_id, "alice") == 2
        assert directory.expire() == 0
    assert directory.get("a").expire_time == clock.now + 2
    assert directory.get("a").revision == granted.revision


def test_an_expired_unknown_or_foreign_lease_cannot_be_renewed(directory, clock):
    granted = directory.register(card("a"), "alice", lease_ttl_s=1)
    for lease_id, principal in [("nonsense", "alice"), ("", "alice"), (granted.lease_id, "mallory")]:
        with pytest.raises(LeaseNotFoundError) as caught:
            directory.renew(lease_id, principal)
        assert granted.lease_id not in str(caught.value)
    clock.now += 1
    with pytest.raises(LeaseNotFoundError):
        directory.renew(granted.lease_id, "alice")


def test_an_agent_can_register_and_deregister_repeatedly(directory):
    for _ in range(3):
        granted = directory.register(card("a"), "alice")
        assert directory.deregister(granted.lease_id, "alice")
        assert names(directory.list()) == []
        assert not directory.deregister(granted.lease_id, "alice")


def test_another_principal_cannot_remove_an_agent(directory):
    granted = directory.register(card("a"), "alice")
    assert not directory.deregister(granted.lease_id, "mallory")
    assert names(directory.list()) == ["a"]


def test_a_url_cannot_be_taken_over_while_its_lease_is_valid(directory, clock):
    directory.register(card("a"), "alice", lease_ttl_s=10)
    clock.now += 9
    with pytest.raises(AgentConflictError):
        directory.register(card("a", tags=["evil"]), "mallory")
    assert directory.get("a").card.tags == []
    clock.now += 1
    directory.register(replace(card("a", tags=["next"]), name="b"), "mallory")
    assert directory.get("grpc://a:1").card.tags == ["next"]


def test_a_failed_takeover_does_not_renew_the_lease(directory, clock):
    directory.register(card("a"), "alice", lease_ttl_s=10)
    clock.now += 9
    with pytest.raises(AgentConflictError):
        directory.register(card("a"), "mallory")
    assert directory.get("a").expire_time == 1_010.0


def test_a_caller_that_knows_the_lease_may_take_over_the_url(directory):
    first = directory.register(card("a"), "alice")
    second = directory.register(card("a"), "alice-with-a-new-token", lease_id=first.lease_id)
    assert second.lease_id == first.lease_id
    directory.renew(second.lease_id, "alice-with-a-new-token")
    with pytest.raises(LeaseNotFoundError):
        directory.renew(first.lease_id, "alice")


def test_the_same_card_again_changes_nothing_but_the_lease(directory, clock):
    first = directory.register(card("a"), "alice")
    clock.now += 10
    again = directory.register(card("a"), "alice", lease_id=first.lease_id)
    assert again == first
    assert directory.revision == first.revision
    assert directory.get("a").register_time == 1_000.0
    assert directory.get("a").expire_time == clock.now + 30


def test_a_registration_without_its_lease_gets_a_new_one_and_ends_the_old(directory):
    first = directory.register(card("a"), "alice")
    again = directory.register(card("a"), "alice")
    assert again.lease_id != first.lease_id
    assert again.revision == first.revision
    with pytest.raises(LeaseNotFoundError):
        directory.renew(first.lease_id, "alice")


def test_an_agent_does_not_expire_while_it_is_registered_again(directory, clock):
    directory.register(card("a"), "alice", lease_ttl_s=10)
    clock.now += 9
    planned = directory.plan_registration(card("a"), "alice", 10, "")
    clock.now += 9
    assert names(directory.list()) == ["a"]
    assert directory.expire() == 0
    directory.perform([planned])
    assert directory.get("a").expire_time == clock.now + 10


def test_a_lease_of_another_url_is_not_taken_over(directory):
    first = directory.register(card("a"), "alice")
    second = directory.register(card("b"), "alice", lease_id=first.lease_id)
    assert second.lease_id != first.lease_id
    assert names(directory.list()) == ["a", "b"]


def test_a_changed_card_has_a_new_revision_and_is_found_by_its_new_values(directory, clock):
    first = directory.register(card("a", tags=["old", "both"]), "alice")
    clock.now += 1
    second = directory.register(replace(card("a", tags=["new", "both"]), name="z"), "alice")
    assert second.revision > first.revision
    assert names(directory.list(AgentFilter(tags=["old"]))) == []
    assert names(directory.list(AgentFilter(tags=["both"]))) == ["z"]
    assert names(directory.list(AgentFilter(tags=["new"], name="z"))) == ["z"]
    assert directory.get("z").register_time == 1_000.0


def test_a_registration_after_expiry_is_a_change_even_with_the_same_card(directory, clock):
    first = directory.register(card("a"), "alice", lease_ttl_s=1)
    clock.now += 1
    second = directory.register(card("a"), "alice", lease_ttl_s=1)
    assert second.revision > first.revision
    assert directory.get("a").register_time == clock.now


def test_a_shorter_lease_takes_effect_at_once(directory, clock):
    directory.register(card("a"), "alice", lease_ttl_s=3600)
    directory.register(card("a"), "alice", lease_ttl_s=1)
    assert directory.next_expiry() == clock.now + 1


@pytest.mark.parametrize("ttl", [0, 0.999, 3600.001, -1, float("nan"), float("inf")])
def test_a_lease_length_outside_its_limits_is_refused(directory, ttl):
    with pytest.raises(InvalidArgumentError) as caught:
        directory.register(card("a"), "alice", lease_ttl_s=ttl)
    assert caught.value.field == "lease_ttl"
    assert len(directory) == 0


def test_an_invalid_card_is_refused_without_effects(directory):
    with pytest.raises(InvalidArgumentError) as caught:
        directory.register(AgentCard("a", "", "grpc://a:1"), "alice")
    assert caught.value.field == "card.description"
    assert len(directory) == 0


def test_expiry_removes_exactly_the_expired_agents(directory, clock):
    for number, ttl in enumerate([5, 1, 3, 2, 4]):
        directory.register(card(f"a{number}"), "alice", lease_ttl_s=ttl)
    assert directory.expire() == 0
    clock.now += 3
    assert directory.expire() == 3
    assert len(directory) == 2
    assert names(directory.list()) == ["a0", "a4"]
    assert directory.expire() == 0


def test_the_next_expiry_is_that_of_the_earliest_valid_lease(directory, clock):
    assert directory.next_expiry() is None
    early = directory.register(card("early"), "alice", lease_ttl_s=5)
    late = directory.register(card("late"), "alice", lease_ttl_s=8)
    assert directory.next_expiry() == 1_005.0
    clock.now += 4
    directory.renew(early.lease_id, "alice")
    assert directory.next_expiry() == 1_008.0
    directory.deregister(late.lease_id, "alice")
    assert directory.next_expiry() == 1_009.0
    directory.deregister(early.lease_id, "alice")
    assert directory.next_expiry() is None


def test_repeated_registrations_use_bounded_memory(directory):
    for _ in range(2_500):
        directory.register(card("a"), "alice", lease_ttl_s=3600)
    assert len(directory._heap) < 2_000


def test_a_lease_that_is_not_renewed_ends_at_the_same_time_for_every_reader():
    directory = AgentDirectory()
    directory.register(card("a"), "alice")
    assert len({directory.get("a").expire_time for _ in range(1_000)}) == 1


def test_leases_follow_their_own_clock(clock):
    wall = Clock()
    directory = AgentDirectory(clock=wall, lease_clock=clock)
    directory.register(card("a"), "alice")
    wall.now += 1_000_000
    assert directory.get("a").expire_time == wall.now + 30
    clock.now += 30
    assert names(directory.list()) == []


def test_the_error_about_an_unknown_name_suggests_the_most_similar_one(directory):
    directory.register(card("weather"), "alice")
    with pytest.raises(AgentNotFoundError, match="did you mean 'weather'") as caught:
        directory.get("wether")
    assert caught.value.metadata == {"name": "wether", "hint": "weather"}
    with pytest.raises(AgentNotFoundError) as caught:
        directory.get("xyz")
    assert "did you mean" not in str(caught.value)


def test_a_name_with_several_instances_returns_the_one_registered_last(directory, clock):
    directory.register(card("a", 1), "alice")
    clock.now += 1
    directory.register(card("a", 2), "alice", lease_ttl_s=1)
    assert directory.get("a").card.url == "grpc://a:2"
    assert directory.get("grpc://a:1").card.url == "grpc://a:1"
    directory.register(card("a", 1, tags=["changed"]), "alice")
    assert directory.get("a").card.url == "grpc://a:2"
    clock.now += 1
    assert directory.get("a").card.url == "grpc://a:1"


# -- names -------------------------------------------------------------------------------------------------------------------

HOLD_S = 100.0


@pytest.fixture
def holding(clock):
    return AgentDirectory(clock=clock, name_hold_s=HOLD_S)


@pytest.mark.parametrize("end", ["lapse", "good-bye"])
def test_a_name_stays_reserved_for_the_hold_time_after_its_lease(holding, clock, end):
    granted = holding.register(card("bank"), "alice", lease_ttl_s=10)
    if end == "good-bye":
        assert holding.deregister(granted.lease_id, "alice")
    else:
        clock.now += 10
        assert holding.expire() == 1
    clock.now += HOLD_S - 1
    for url in ("grpc://bank:1", "grpc://evil:1"):
        with pytest.raises(AgentConflictError, match="the name 'bank'") as caught:
            holding.register(AgentCard("bank", "d", url), "mallory")
        assert "alice" not in str(caught.value) + str(caught.value.metadata)
    assert len(holding) == 0
    clock.now += 1
    holding.register(AgentCard("bank", "d", "grpc://evil:1"), "mallory")
    assert holding.get("bank").card.url == "grpc://evil:1"


def test_the_owner_can_use_its_reserved_name_at_any_address(holding, clock):
    granted = holding.register(card("bank"), "alice")
    holding.deregister(granted.lease_id, "alice")
    clock.now += HOLD_S / 2
    holding.register(card("bank", 2), "alice")
    clock.now += 29
    assert holding.get("bank").card.url == "grpc://bank:2"


def test_a_registered_name_belongs_to_its_owner_without_time_limit(holding, clock):
    granted = holding.register(card("bank"), "alice", lease_ttl_s=3600)
    for _ in range(10):
        clock.now += HOLD_S
        holding.renew(granted.lease_id, "alice")
    with pytest.raises(AgentConflictError):
        holding.register(card("bank", 2), "mallory")


@pytest.mark.parametrize("spelling", ["Bank", "BANK", "\uff42\uff41\uff4e\uff4b", "ban\u212a"])
def test_a_name_that_differs_in_case_or_width_only_belongs_to_the_same_owner(directory, spelling):
    directory.register(card("bank"), "alice")
    with pytest.raises(AgentConflictError):
        directory.register(AgentCard(spelling, "d", "grpc://evil:1"), "mallory")
    directory.register(AgentCard(spelling, "d", "grpc://bank:2"), "alice")
    assert directory.get("bank").card.url == "grpc://bank:1"
    assert directory.get(spelling).card.url == "grpc://bank:2"


@pytest.mark.parametrize(
    "name",
    ["ba\x00nk", "bank\n", " bank", "bank ", "ba\u200bnk", "\u202eknab", "ba\xadnk", "ba\u2028nk", "grpc://bank:1"],
)
def test_a_name_that_could_be_mistaken_for_another_or_a_url_is_refused(directory, name):
    with pytest.raises(InvalidArgumentError) as caught:
        directory.register(AgentCard(name, "d", "grpc://bank:1"), "alice")
    assert caught.value.field == "card.name"
    assert directory.names.owner(name) is None


@pytest.mark.parametrize("name", ["Zo\xeb", "\u9280\u884c", "a b", "bank-2", "\U0001f3e6", "\u0431\u0430\u043d\u043a"])
def test_names_in_all_languages_are_valid(directory, name):
    directory.register(AgentCard(name, "d", "grpc://bank:1"), "alice")
    assert directory.get(name).card.name == name


def test_a_refused_registration_does_not_reserve_the_name(directory):
    directory.register(card("a"), "alice")
    with pytest.raises(AgentConflictError):
        directory.register(AgentCard("fresh", "d", "grpc://a:1"), "mallory")
    directory.register(card("fresh"), "bob")


def test_two_plans_never_give_one_name_to_two_principals(directory):
    first = directory.plan_registration(card("a", 1), "alice", 30, "")
    with pytest.raises(AgentConflictError):
        directory.plan_registration(card("a", 2), "mallory", 30, "")
    directory.perform([first])
    assert directory.get("a").card.url == "grpc://a:1"


def test_an_agent_that_changes_its_name_keeps_the_old_one_for_the_hold_time(holding, clock):
    holding.register(card("old"), "alice")
    holding.register(replace(card("old"), name="new"), "alice")
    for name in ("old", "new"):
        with pytest.raises(AgentConflictError):
            holding.register(AgentCard(name, "d", "grpc://evil:1"), "mallory")
    clock.now += HOLD_S
    holding.renew(holding.register(replace(card("old"), name="new"), "alice").lease_id, "alice")
    holding.register(AgentCard("old", "d", "grpc://evil:1"), "mallory")


def test_a_takeover_by_lease_includes_its_name_and_no_other_name(directory):
    first = directory.register(card("a"), "alice")
    directory.register(card("b"), "bob")
    with pytest.raises(AgentConflictError):
        directory.register(replace(card("a"), name="b"), "alice-2", lease_id=first.lease_id)
    directory.register(card("a"), "alice-2", lease_id=first.lease_id)
    with pytest.raises(AgentConflictError):
        directory.register(card("a", 2), "alice")


def test_anonymous_callers_are_one_owner_whose_names_are_not_held(directory):
    granted = directory.register(card("a"), "anonymous")
    directory.register(card("a", 2), "anonymous")
    with pytest.raises(AgentConflictError):
        directory.register(card("a", 3), "alice")
    directory.deregister(granted.lease_id, "anonymous")
    directory.deregister(directory.register(card("a", 2), "anonymous").lease_id, "anonymous")
    directory.register(card("a", 3), "alice")


def test_an_administrator_takes_names_and_urls_over(directory):
    directory.register(card("a"), "mallory")
    mutation = directory.plan_registration(card("a"), "admin", 30, "", is_admin=True)
    directory.perform([mutation])
    with pytest.raises(AgentConflictError):
        directory.register(card("a", 2), "mallory")


def test_unused_names_use_bounded_memory(monkeypatch):
    monkeypatch.setattr("protolink_grpc.registry.names.MAX_HELD_NAMES", 100)
    directory = AgentDirectory()
    directory.deregister(directory.register(card("mine"), "alice").lease_id, "alice")
    for number in range(300):
        directory.deregister(directory.register(card(f"a{number}"), "mallory").lease_id, "mallory")
    assert len(directory.names._owners) == 101
    assert directory.names.owner("mine") == "alice"
    assert directory.names.owner("a299") == "mallory"
    assert directory.names.owner("a0") is None


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_an_invalid_hold_time_is_refused(seconds):
    with pytest.raises(InvalidArgumentError) as caught:
        AgentDirectory(name_hold_s=seconds)
    assert caught.value.field == "name_hold_s"


def test_a_principal_has_a_bounded_number_of_agents(clock):
    directory = AgentDirectory(clock=clock, max_agents=2)
    directory.register(card("a"), "alice", lease_ttl_s=1)
    directory.register(card("b"), "alice")
    with pytest.raises(ResourceExhaustedError):
        directory.register(card("c"), "alice")
    directory.register(card("b", tags=["new"]), "alice")
    directory.register(card("c"), "bob")
    clock.now += 1
    directory.expire()
    directory.register(card("d"), "alice")


# -- addresses ---------------------------------------------------------------------------------------------------------------


def test_equivalent_urls_are_the_same_agent(directory):
    directory.register(AgentCard("a", "d", "grpc://bank.example:1"), "alice")
    for spelling in ("GRPC://Bank.Example:1", "grpc://bank.example.:1/", "bank.example:1"):
        with pytest.raises(AgentConflictError):
            directory.register(AgentCard("evil", "d", spelling), "mallory")
    assert directory.get("grpc://BANK.example:1/").card.name == "a"
    directory.register(AgentCard("a", "d", "grpc://BANK.example:1/"), "alice")
    assert len(directory) == 1
    directory.register(AgentCard("b", "d", "grpcs://bank.example:1"), "mallory")
    assert len(directory) == 2


@pytest.mark.parametrize(
    "url", ["bank", "ftp://a:1", "grpc://a", "http://u:p@a", "http://a\n.evil:1", "http://" + "a" * 3000]
)
def test_a_url_that_clients_cannot_call_is_refused(directory, url):
    with pytest.raises(InvalidArgumentError) as caught:
        directory.register(AgentCard("a", "d", url), "alice")
    assert caught.value.field == "card.url"
    assert len(directory) == 0


def test_an_empty_name_is_refused(directory):
    with pytest.raises(InvalidArgumentError) as caught:
        directory.get("")
    assert caught.value.field == "name"


def test_agents_are_found_by_role_and_capability(directory):
    directory.register(card("a", role="gateway", capabilities=AgentCapabilities(rag=True)), "alice")
    directory.register(card("b"), "alice")
    assert names(directory.list(AgentFilter(role="gateway"))) == ["a"]
    assert names(directory.list(AgentFilter(role="worker"))) == ["b"]
    assert names(directory.list(AgentFilter(features=["rag"]))) == ["a"]
    assert names(directory.list(AgentFilter(features=["rag"], role="worker"))) == []


def pages(directory, wanted, page_size):
    token = ""
    while True:
        page = directory.list(wanted, page_size, token)
        yield page
        token = page.next_page_token
        if not token:
            return


@pytest.mark.parametrize("page_size", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("wanted", [AgentFilter(), AgentFilter(tags=["x"])])
def test_pages_joined_are_the_whole_list_in_order(directory, wanted, page_size):
    for number in (3, 1, 6, 0, 5, 2, 4):
        directory.register(card(f"a{number}", tags=["x"]), "alice")
    found = list(pages(directory, wanted, page_size))
    assert [name for page in found for name in names(page)] == [f"a{number}" for number in range(7)]
    assert all(len(page.agents) == page_size for page in found[:-1])
    assert found[-1].agents


def test_a_page_continues_after_the_last_one_despite_concurrent_changes(directory):
    granted = {name: directory.register(card(name), "alice") for name in "bdfh"}
    first = directory.list(page_size=2)
    assert names(first) == ["b", "d"]
    directory.deregister(granted["d"].lease_id, "alice")
    directory.register(card("a"), "alice")
    directory.register(card("e"), "alice")
    assert names(directory.list(page_token=first.next_page_token)) == ["e", "f", "h"]


def test_a_page_ends_early_when_its_cards_are_large(directory):
    for number in range(5):
        directory.register(card(f"a{number}", metadata={"blob": "x" * 600_000}), "alice")
    found = list(pages(directory, AgentFilter(), 100))
    assert [len(page.agents) for page in found] == [2, 2, 1]


@pytest.mark.parametrize("token", ["nonsense", "!", "é", "AAAA", "AAAAAAAAAAD//w==", "A"])
def test_an_invalid_token_is_refused(directory, token):
    with pytest.raises(InvalidArgumentError) as caught:
        directory.list(page_token=token)
    assert caught.value.field == "page_token"


def test_a_token_of_another_filter_is_refused(directory):
    for name in "ab":
        directory.register(card(name, tags=["x"]), "alice")
    token = directory.list(AgentFilter(tags=["x"]), 1).next_page_token
    with pytest.raises(InvalidArgumentError) as caught:
        directory.list(AgentFilter(), 1, token)
    assert caught.value.field == "page_token"
    assert names(directory.list(AgentFilter(tags=["x", "x"]), 1, token)) == ["b"]


@pytest.mark.parametrize("page_size", [-1, 1_001])
def test_a_page_size_outside_its_bounds_is_refused(directory, page_size):
    with pytest.raises(InvalidArgumentError) as caught:
        directory.list(page_size=page_size)
    assert caught.value.field == "page_size"


class CountingEntries(dict):
    """Counts the agents that a list reads."""

    looked_at = 0

    def __getitem__(self, url):
        self.looked_at += 1
        return super().__getitem__(url)


def test_a_list_by_tag_reads_no_agents_without_the_tag(directory):
    for number in range(2_500):
        directory.register(card(f"a{number}", tags=["rare"] if number % 125 == 0 else ["common"]), "alice")
    directory._by_url = entries = CountingEntries(directory._by_url)
    wanted = AgentFilter(tags=["rare"])
    assert len(directory.list(wanted).agents) == 20
    assert entries.looked_at == 20
    assert len(directory.list(AgentFilter(tags=["common"], role="worker"), 50).agents) == 50
    assert entries.looked_at <= 20 + 51


def test_a_change_planned_on_an_older_state_is_refused(directory):
    planned = directory.plan_registration(card("a"), "alice", 30, "")
    directory.register(card("a"), "alice")
    directory.stage([planned])
    with pytest.raises(RuntimeError):
        directory.apply([planned])


def test_no_representation_contains_a_secret(directory):
    granted = directory.register(card("a"), "alice")
    planned = directory.plan_removal(granted.lease_id, "alice")
    assert granted.lease_id not in repr(granted) + repr(planned) + repr(directory.get("a"))


DRAINING = InstanceStatus(InstanceState.DRAINING)


def test_reported_load_is_visible_and_is_not_a_change(directory):
    granted = directory.register(card("a"), "alice")
    assert directory.renew(granted.lease_id, "alice", InstanceStatus(InstanceState.UP, 3, 5)) == 30.0
    found = directory.get("a")
    assert (found.running, found.queued, found.revision) == (3, 5, granted.revision)
    assert directory.revision == granted.revision


def test_a_change_of_state_is_a_change_and_keeps_lease_load_and_registration(directory, clock):
    granted = directory.register(card("a"), "alice", instance_id="i-1")
    clock.now += 10
    directory.renew(granted.lease_id, "alice", InstanceStatus(InstanceState.DRAINING, 2, 1))
    found = directory.get("a")
    assert (found.state, found.is_draining, found.running, found.queued) == (InstanceState.DRAINING, True, 2, 1)
    assert found.revision == directory.revision == granted.revision + 1
    assert (found.register_time, found.expire_time, found.instance_id) == (1_000.0, 1_040.0, "i-1")
    directory.renew(granted.lease_id, "alice", DRAINING)
    directory.renew(granted.lease_id, "alice")
    assert (directory.revision, directory.get("a").state) == (granted.revision + 1, InstanceState.DRAINING)
    assert directory.deregister(granted.lease_id, "alice")


def test_an_agent_that_registers_again_is_up_and_without_load(directory):
    granted = directory.register(card("a"), "alice")
    directory.renew(granted.lease_id, "alice", InstanceStatus(InstanceState.DRAINING, 2, 1))
    directory.register(card("a"), "alice", lease_id=granted.lease_id)
    found = directory.get("a")
    assert (found.state, found.running, found.queued) == (InstanceState.UP, 0, 0)


@pytest.mark.parametrize(("instance_id", "changes"), [("i-1", 0), ("i-2", 1)])
def test_another_start_under_the_same_url_is_a_change(directory, instance_id, changes):
    before = directory.register(card("a"), "alice", instance_id="i-1")
    again = directory.register(card("a"), "alice", instance_id=instance_id)
    assert again.revision - before.revision == changes
    assert directory.get("a").instance_id == instance_id


@pytest.mark.parametrize(("principal", "owner"), [("alice", "alice"), ("anonymous", "")])
def test_a_registration_shows_its_owner(directory, principal, owner):
    directory.register(card("a"), principal)
    assert directory.get("a").owner == owner


def test_a_name_returns_an_instance_that_is_not_draining(directory, clock):
    leases = []
    for port in (1, 2):
        clock.now += 1
        leases.append(directory.register(card("a", port), "alice").lease_id)
    assert directory.get("a").card.url == "grpc://a:2"
    directory.renew(leases[1], "alice", DRAINING)
    assert directory.get("a").card.url == "grpc://a:1"
    assert directory.get("grpc://a:2").is_draining
    assert names(directory.list(AgentFilter(name="a"))) == ["a", "a"]
    directory.renew(leases[0], "alice", DRAINING)
    assert directory.get("a").card.url == "grpc://a:2"
