"""Registrations with arbitrary names and URLs, and names under any history of competing principals."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from protolink_grpc.errors import AgentConflictError, AgentNotFoundError, InvalidArgumentError
from protolink_grpc.models.card import AgentCard
from protolink_grpc.registry import AgentDirectory, AgentFilter
from protolink_grpc.registry.names import name_key

texts = st.text(max_size=40) | st.text("bankBANK :/\n\u200b\u0430\uff42", max_size=12)
urls = (
    st.text(max_size=40)
    | st.text("grpcshtws:/.%@?#[]0123456789aA\n", max_size=30)
    | st.text(".%@:/[]0189aZ\xfc", max_size=20).map("http://".__add__)
    | st.integers(0, 70_000).map("grpc://bank:{}".format)
)


@given(name=texts, url=urls)
def test_any_name_and_url_is_registered_and_found_or_refused_by_field(name: str, url: str) -> None:
    directory, refusal = AgentDirectory(), None
    try:
        directory.register(AgentCard(name, "d", url), "alice")
    except InvalidArgumentError as error:
        refusal = error
    if refusal is not None:
        assert refusal.field in ("card", "card.name", "card.url")
        assert len(directory) == 0
        return
    assert directory.get(name).card.url == url
    assert directory.get(url if "://" in url else f"grpc://{url}").card.name == name
    assert directory.names.owner(name) == "alice"


@given(name=texts)
def test_any_text_can_be_looked_up(name: str) -> None:
    directory = AgentDirectory()
    directory.register(AgentCard("bank", "d", "grpc://bank:1"), "alice")
    try:
        assert directory.get(name).card.name == "bank"
    except (AgentNotFoundError, InvalidArgumentError):
        assert name != "bank"


@given(name=texts)
def test_the_key_of_a_name_is_its_own(name: str) -> None:
    assert name_key(name_key(name)) == name_key(name)


HOLD_S, LEASE_S = 10, 3
principals = st.sampled_from(["alice", "bob"])


class Competition(RuleBasedStateMachine):
    """A model of who may have a name: a name's owner, and until when it is held without a registration."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0
        self.directory = AgentDirectory(clock=lambda: self.now, name_hold_s=HOLD_S)
        self.owners: dict[str, tuple[str, float]] = {}  # key -> owner, until when if its registrations end now
        self.leases: dict[str, tuple[str, str, float]] = {}  # url -> principal, lease, due

    @rule(who=principals, name=st.sampled_from(["bank", "Bank", "shop"]), port=st.integers(1, 4))
    def register(self, who: str, name: str, port: int) -> None:
        self.directory.expire()
        key, url = name_key(name), f"grpc://{who}:{port}"
        self._note_registered()
        owner, until = self.owners.get(key, ("", 0.0))
        is_held = self.now < until
        try:
            granted = self.directory.register(AgentCard(name, "d", url), who, lease_ttl_s=LEASE_S)
        except AgentConflictError:
            assert owner not in ("", who)
            assert is_held
            return
        assert owner in ("", who) or not is_held
        self.owners[key] = who, self.now + HOLD_S
        self.leases[url] = who, granted.lease_id, self.now + LEASE_S

    def _note_registered(self) -> None:
        for entry in self.directory._by_url.values():
            self.owners[name_key(entry.position[0])] = entry.stored.principal, self.now + HOLD_S

    @rule(url=st.sampled_from(["grpc://alice:1", "grpc://bob:1"]), renews=st.booleans())
    def renew_or_leave(self, url: str, renews: bool) -> None:
        who, lease, due = self.leases.get(url, ("", "", 0.0))
        if due <= self.now:
            return
        if renews:
            self.directory.renew(lease, who)
            self.leases[url] = who, lease, self.now + LEASE_S
        else:
            self._note_registered()
            assert self.directory.deregister(lease, who)
            del self.leases[url]

    @rule(seconds=st.integers(1, 6))
    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):  # a registry removes what is due within a moment
            self.now += 1
            self._note_registered()
            self.directory.expire()

    @invariant()
    def every_name_has_one_principal(self) -> None:
        found: dict[str, set[str]] = {}
        for agent in self.directory.list(AgentFilter(), 1_000).agents:
            found.setdefault(name_key(agent.card.name), set()).add(agent.card.url.split(":")[1])
        assert all(len(each) == 1 for each in found.values())

    @invariant()
    def what_is_counted_is_there(self) -> None:
        names = self.directory.names
        registrations = sum(each.registrations for each in names._owners.values())
        assert registrations == len(self.directory) == self.directory._counts.total()
        idle = {key for held in names._idle.values() for key in held}
        assert idle == {key for key, each in names._owners.items() if not each.registrations}


TestCompetition = Competition.TestCase
