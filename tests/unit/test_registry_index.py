"""The index compared with a naive scan, for random histories of registrations."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from protolink_grpc.models.card import AgentCapabilities, AgentCard, AgentSkill
from protolink_grpc.registry import AgentChangeKind, AgentDirectory, AgentFilter

words = st.sampled_from("abc")
few = st.lists(words, max_size=2)
cards = st.builds(
    AgentCard,
    name=words,
    description=st.just("d"),
    url=st.sampled_from([f"grpc://u{number}:1" for number in range(1, 6)]),
    role=words,
    tags=few,
    skills=st.lists(st.builds(AgentSkill, words), max_size=2, unique_by=lambda skill: skill.id),
    capabilities=st.builds(AgentCapabilities, streaming=st.booleans(), rag=st.booleans()),
    metadata=st.dictionaries(words, words, max_size=2),
)
filters = st.builds(
    AgentFilter,
    name=st.just("") | words,
    role=st.just("") | words,
    tags=few,
    skills=few,
    metadata=st.dictionaries(words, words, max_size=1),
    features=st.lists(st.sampled_from(["streaming", "rag"]), max_size=2),
)


def has_all(card, wanted):
    """The filter according to the contract, without an index."""
    return (
        wanted.name in ("", card.name)
        and wanted.role in ("", card.role)
        and all(tag in card.tags for tag in wanted.tags)
        and all(any(skill.id == each for skill in card.skills) for each in wanted.skills)
        and all(card.metadata.get(key) == value for key, value in wanted.metadata.items())
        and all(getattr(card.capabilities, name) for name in wanted.features)
    )


class Histories(RuleBasedStateMachine):
    """Each watcher gets only batches, and must always have the same agents as a scan."""

    def __init__(self):
        super().__init__()
        self.now = 1_000.0
        self.directory = AgentDirectory(clock=lambda: self.now, ring_size=6)
        self.alive = {}  # url -> (card, lease, due)
        self.watchers = []  # (filter, revision, {url: card})

    def expected(self, wanted):
        found = [each for each, _, due in self.alive.values() if due > self.now and has_all(each, wanted)]
        return sorted(found, key=lambda each: (each.name, each.url))

    @rule(card=cards, ttl=st.integers(1, 5))
    def register(self, card, ttl):
        granted = self.directory.register(card, "alice", lease_ttl_s=ttl)
        self.alive[card.url] = (card, granted.lease_id, self.now + ttl)

    @rule(url=st.sampled_from([f"grpc://u{number}:1" for number in range(1, 6)]))
    def deregister(self, url):
        if url in self.alive:
            _, lease, due = self.alive.pop(url)
            assert self.directory.deregister(lease, "alice") == (due > self.now)

    @rule(seconds=st.integers(0, 3), sweep=st.booleans())
    def pass_time(self, seconds, sweep):
        self.now += seconds
        if sweep:
            self.directory.expire()
            assert len(self.directory) == len(self.expected(AgentFilter()))
            assert len(self.directory.list(page_size=1_000).agents) == len(self.directory)

    @rule(wanted=filters, page_size=st.integers(1, 3))
    def list_pages(self, wanted, page_size):
        found, token = [], ""
        while True:
            page = self.directory.list(wanted, page_size, token)
            found += [agent.card for agent in page.agents]
            token = page.next_page_token
            if not token:
                break
        assert found == self.expected(wanted)

    @rule(wanted=filters)
    def begin_to_watch(self, wanted):
        self.watchers.append([wanted, 0, {}])

    @rule()
    def read_the_news(self):
        self.directory.expire()
        for watcher in self.watchers:
            wanted, revision, known = watcher
            while revision != self.directory.revision:
                for batch in self.directory._next_batches(revision, wanted.keys):
                    if batch.position.reset:
                        known.clear()
                    for change in batch.changes:
                        if change.kind is AgentChangeKind.UP:
                            known[change.agent.card.url] = change.agent.card
                        else:
                            del known[change.agent.card.url]
                    revision = batch.position.revision
            watcher[1] = revision
            assert sorted(known.values(), key=lambda each: (each.name, each.url)) == self.expected(wanted)

    @invariant()
    def every_posting_is_sorted_and_none_is_empty(self):
        index = self.directory._index
        for posting in [index._all, *index._postings.values()]:
            assert posting == sorted(set(posting))
        assert all(index._postings.values())


Histories.TestCase.settings = settings(stateful_step_count=30, deadline=None)
test_any_history_is_read_as_a_naive_scan_would = Histories.TestCase
