"""The journal: for every end of a log it has the finished work, the pending work and the usage."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from runtime_scene import FIRST_MICROS, at

from protolink_grpc.models import Artifact, Message, Part, PolicyDecision, PolicyEffect, RunAction, RunBudget, Task
from protolink_grpc.models.action import (
    ApprovalDecision,
    ApprovalRequest,
    BudgetDecision,
    BudgetEffect,
    BudgetUsage,
    ContextManifest,
    Cost,
)
from protolink_grpc.models.clock import iso_from_micros
from protolink_grpc.models.events import (
    ActionEnded,
    ActionPolicyEvaluated,
    ActionRequested,
    ActionStarted,
    ApprovalDecided,
    ApprovalRequired,
    BudgetReported,
    ContextPrepared,
    LlmCallCompleted,
    LlmCallStarted,
    PeerTaskLinked,
    RunEvent,
    TaskArtifactUpdated,
    TaskInputReplaced,
    TaskMessagesAdded,
    TaskPaused,
    TaskProgress,
    TaskResumed,
    TaskStatusChanged,
    TaskSubmitted,
)
from protolink_grpc.models.lifecycle import TaskState
from protolink_grpc.policy.budget import BudgetEnforcer
from protolink_grpc.runtime.journal import ActionRecord, Journal

SUBMITTED = TaskSubmitted(Task.create("go"))
VERDICT = PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, "ask")


def begins(attempt: int) -> TaskStatusChanged:
    before = TaskState.SUBMITTED if attempt == 1 else TaskState.WORKING
    return TaskStatusChanged(before, TaskState.WORKING, attempt=attempt)


def action(name: str = "buy", kind: str = "tool.call") -> RunAction:
    return RunAction(kind, name, {"arguments": {}}, action_id=f"id-{name}")


def of(name: str, payload: Any, **envelope: Any) -> RunEvent:
    return RunEvent(payload=payload, action_id=f"id-{name}", **envelope)


def read(*facts: Any) -> Journal:
    journal = Journal()
    journal.take(at(facts))
    return journal


def seconds(journal: Journal) -> float:
    return 0.0 if journal.usage is None else journal.usage.runtime_seconds


def timed(*facts: tuple[float, Any]) -> Journal:
    """The journal of facts that were recorded at these seconds."""
    journal = Journal()
    events = [
        replace(event, timestamp=iso_from_micros(FIRST_MICROS + int(second * 1e6)))
        for (second, _), event in zip(facts, at(fact for _, fact in facts), strict=True)
    ]
    journal.take(events)
    return journal


def question(request_id: str, name: str = "buy", **more: Any) -> RunEvent:
    return of(name, ApprovalRequired(ApprovalRequest(action(name), VERDICT, request_id=request_id, **more)))


def answer(request_id: str, approved: bool = True) -> ApprovalDecided:
    return ApprovalDecided(ApprovalDecision(approved, request_id))


# Actions


def test_an_action_is_found_by_its_position_with_all_that_became_of_it() -> None:
    ended = ActionEnded("tool.call", "buy", "a book")
    journal = read(
        SUBMITTED,
        begins(1),
        of("buy", ActionRequested(action(), position="m/0")),
        of("buy", ActionPolicyEvaluated(VERDICT)),
        question("r1"),
        answer("r1"),
        of("buy", ActionStarted("tool.call", "buy", {"price": 1})),
        of("buy", PeerTaskLinked("shop", "grpc://shop:1", "plgrpc", "one")),
        of("buy", PeerTaskLinked("shop", "grpc://shop:2", "plgrpc", "one")),
        of("buy", ended),
    )
    record = journal.actions["m/0"]
    assert (record.action, record.policy, record.started) == (action_as_read(record), VERDICT, 1)
    assert [request.request_id for request in record.requests] == ["r1"]
    assert record.answers["r1"].approved
    assert (record.arguments, record.ended) == ({"price": 1}, ended)
    assert record.peer_task == PeerTaskLinked("shop", "grpc://shop:2", "plgrpc", "one")


def test_work_at_another_agent_is_open_until_its_action_has_ended() -> None:
    def call(name: str, **payload: Any) -> list[RunEvent]:
        request = RunAction("agent.call", name, {"agent": "shop", **payload}, action_id=f"id-{name}")
        return [of(name, ActionRequested(request, position=name)), of(name, ActionStarted("agent.call", name))]

    link = PeerTaskLinked("shop", "http://shop", "a2a", "theirs")
    journal = read(
        SUBMITTED,
        begins(1),
        *call("works"),
        of("works", link),
        *call("done"),
        of("done", link),
        of("done", ActionEnded("agent.call", "done")),
        *call("canceled"),
        of("canceled", link),
        of("canceled", ActionEnded("agent.call", "canceled", outcome="canceled")),
        *call("typed", method="/acme.Shop/Buy", url="grpc://shop:1"),
        *call("not sent"),
    )
    found = [(each.action.name, each.link, each.has_ended) for each in journal.open_delegations()]
    assert found == [
        ("works", link, False),
        ("canceled", link, True),
        ("typed", PeerTaskLinked(url="grpc://shop:1", task_id="id-typed"), False),
    ]


def action_as_read(record: ActionRecord) -> RunAction:
    return replace(action(), created_at=record.action.created_at)


def test_actions_side_by_side_keep_their_facts_apart() -> None:
    journal = read(
        begins(1),
        of("a", ActionRequested(action("a"), position="1")),
        of("b", ActionRequested(action("b"), position="2")),
        question("ra", "a"),
        of("b", ActionStarted("tool.call", "b")),
        answer("ra", approved=False),
        of("b", ActionEnded("tool.call", "b", error="broken", outcome="failed")),
    )
    first, second = journal.actions["1"], journal.actions["2"]
    assert (first.started, first.ended, list(first.answers)) == (0, None, ["ra"])
    assert (second.started, second.requests) == (1, [])
    assert second.ended is not None
    assert second.ended.outcome == "failed"


def test_facts_about_an_action_that_was_never_requested_are_left_out() -> None:
    journal = read(begins(1), of("x", ActionStarted("tool.call", "x")), question("r1", "x"), answer("r1"))
    assert journal.actions == {}


def test_the_input_of_a_turn_is_the_one_that_replaced_it_in_the_queue() -> None:
    better = Message.user("better")
    journal = read(SUBMITTED, TaskInputReplaced((better,), "ann"), begins(1))
    assert journal.item is not None
    assert (journal.item.id, journal.made) == (better.id, set())


def test_an_action_of_a_detached_place_has_no_position_to_be_found_by() -> None:
    assert read(begins(1), of("buy", ActionRequested(action()))).actions == {}


def test_a_question_whether_to_repeat_counts_until_the_action_begins_again() -> None:
    begun = [begins(1), of("buy", ActionRequested(action(), position="p")), question("r1"), answer("r1")]
    start = of("buy", ActionStarted("tool.call", "buy"))
    asked = [*begun, start, begins(2), question("again", uncertain=True), answer("again")]
    assert [each.request_id for each in read(*asked).actions["p"].requests] == ["r1", "again"]
    assert [each.request_id for each in read(*asked, start).actions["p"].requests] == ["r1"]


def test_answers_of_models_are_found_by_their_call() -> None:
    said = LlmCallCompleted("m/1", text="hello")
    journal = read(begins(1), LlmCallStarted("m/1"), said, LlmCallStarted("m/2"))
    assert journal.answers == {"m/1": said}


def test_limits_that_have_warned_are_known_and_exceeded_ones_are_not_among_them() -> None:
    warning = BudgetDecision(BudgetEffect.WARN, "max_steps")
    denial = BudgetDecision(BudgetEffect.DENY, "max_tool_calls")
    journal = read(begins(1), BudgetReported(warning), BudgetReported(denial))
    assert journal.warned == {"max_steps"}


# What the turn is about


def test_the_item_of_a_first_turn_is_what_was_submitted() -> None:
    task = Task.create("go")
    output = Artifact(parts=[Part.text("done")])
    note = Message.agent("working on it")
    journal = read(TaskSubmitted(task), begins(1), TaskArtifactUpdated(output), TaskMessagesAdded((note,)), begins(2))
    assert journal.item is not None
    assert journal.item.id == task.messages[0].id
    assert journal.made == {output.id, note.id}


def test_the_item_of_a_submitted_artifact_is_the_artifact() -> None:
    task = Task.create("go").add_artifact(Artifact(parts=[Part.tool_call("buy", {})]))
    journal = read(TaskSubmitted(task), begins(1))
    assert journal.item is not None
    assert (journal.item.id, journal.made) == (task.artifacts[0].id, set())


def test_the_item_of_a_later_turn_is_the_message_that_began_it() -> None:
    message = Message.user("and now this")
    journal = read(TaskMessagesAdded((message,)), begins(2), TaskProgress(50.0), begins(3))
    assert journal.item is not None
    assert journal.item.id == message.id


# Usage


def test_a_log_without_a_run_has_used_nothing() -> None:
    assert read(SUBMITTED).usage is None


def test_what_earlier_turns_used_comes_on_top() -> None:
    journal = Journal(BudgetUsage(tool_calls=2, runtime_seconds=10.0))
    journal.take(at([begins(2), of("buy", ActionRequested(action(), position="p"))]))
    assert journal.usage is not None
    assert (journal.usage.tool_calls, journal.usage.runtime_seconds) == (3, 11.0)


def test_a_tool_call_counts_once_however_often_it_begins() -> None:
    start = of("buy", ActionStarted("tool.call", "buy"))
    journal = read(
        begins(1), of("buy", ActionRequested(action(), position="p")), start, begins(2), start, begins(3), start
    )
    assert journal.usage is not None
    assert (journal.usage.tool_calls, journal.actions["p"].started) == (1, 3)


def test_what_calls_of_models_cost_is_known_again() -> None:
    said = LlmCallCompleted(
        "m/1", input_tokens=9, output_tokens=4, cost_micros=7, currency="EUR", cached_input_tokens=5, reasoning_tokens=3
    )
    used = BudgetUsage(costs=(Cost(1, "EUR"), Cost(2, "USD")))
    ended = of("hotel", ActionEnded("agent.call", "hotel", usage=used))
    asked = of("hotel", ActionRequested(action("hotel", "agent.call"), position="p"))
    journal = read(begins(1), LlmCallStarted("m/1"), said, LlmCallStarted("m/2"), LlmCallCompleted("m/2"), asked, ended)
    assert journal.usage is not None
    assert journal.usage.costs == (Cost(8, "EUR"), Cost(2, "USD"))
    assert (journal.usage.cached_input_tokens, journal.usage.reasoning_tokens) == (5, 3)


def test_a_pause_is_no_runtime_also_if_a_later_run_ends_it() -> None:
    assert seconds(timed((0, begins(1)), (2, TaskPaused()), (60, TaskResumed()), (61, TaskProgress(1.0)))) == 3.0
    later = timed((0, begins(1)), (2, TaskPaused()), (50, begins(2)), (60, TaskResumed()), (61, TaskProgress(1.0)))
    assert seconds(later) == 3.0


def test_a_delegation_counts_what_it_used_but_not_its_time() -> None:
    used = BudgetUsage(steps=2, llm_calls=2, tool_calls=1, input_tokens=50, output_tokens=5, runtime_seconds=99.0)
    hotel = action("hotel", "agent.call")
    journal = timed(
        (0, begins(1)),
        (1, of("hotel", ActionRequested(hotel, position="p"))),
        (1, of("hotel", ActionStarted("agent.call", "hotel"))),
        (5, of("hotel", ActionEnded("agent.call", "hotel", usage=used))),
    )
    assert journal.usage == replace(used, runtime_seconds=5.0)


def call(step: int, estimate: int, known: int | None, written: int | None = 7, tries: int = 1) -> Iterator[Any]:
    yield ContextPrepared(ContextManifest(user_tokens=estimate), step)
    for attempt in range(1, tries + 1):
        yield LlmCallStarted(f"c/{step}", attempt=attempt, step=step)
    metrics = {} if written is not None else {"estimated_output_tokens": 3}
    yield LlmCallCompleted(f"c/{step}", step=step, input_tokens=known, output_tokens=written, metrics=metrics)


def test_each_try_of_a_call_costs_its_prompt_and_the_last_what_the_provider_says() -> None:
    usage = read(begins(1), *call(1, 100, 120, tries=3)).usage
    assert usage is not None
    assert (usage.steps, usage.llm_calls, usage.input_tokens, usage.output_tokens) == (1, 3, 320, 7)


def test_what_a_provider_does_not_say_is_estimated() -> None:
    usage = read(begins(1), *call(1, 100, None, None)).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (100, 3)


def test_a_call_that_was_cut_off_was_paid_for_and_its_step_is_taken_again() -> None:
    usage = read(begins(1), *list(call(1, 100, 100))[:-1]).usage
    assert usage is not None
    assert (usage.steps, usage.llm_calls, usage.input_tokens, usage.output_tokens) == (0, 1, 100, 0)


# Time


def test_a_run_has_worked_until_its_last_event() -> None:
    assert seconds(timed((0, begins(1)), (2, TaskProgress(1.0)))) == 2.0


def test_the_time_between_two_runs_is_nobodys() -> None:
    assert seconds(timed((0, begins(1)), (2, TaskProgress(1.0)), (100, begins(2)), (103, TaskProgress(2.0)))) == 5.0


def test_waiting_for_a_person_is_no_work() -> None:
    assert seconds(timed((0, begins(1)), (2, question("r")), (60, answer("r")), (61, TaskProgress(1.0)))) == 3.0


def test_a_run_that_still_waits_does_not_work_meanwhile() -> None:
    assert seconds(timed((0, begins(1)), (2, question("r")), (60, TaskProgress(1.0)))) == 2.0


def test_two_questions_at_once_are_one_wait() -> None:
    facts = [(0, begins(1)), (2, question("a")), (10, question("b")), (20, answer("a")), (30, answer("b"))]
    assert seconds(timed(*facts, (31, TaskProgress(1.0)))) == 3.0


def test_a_wait_within_a_wait_counts_once() -> None:
    facts = [(0, begins(1)), (2, question("a")), (10, question("b")), (20, answer("b")), (30, answer("a"))]
    assert seconds(timed(*facts, (31, TaskProgress(1.0)))) == 3.0


def test_a_question_that_outlives_its_run_is_waited_for_by_the_next_one() -> None:
    facts = [(0, begins(1)), (2, question("r")), (100, begins(2)), (150, answer("r")), (151, TaskProgress(1.0))]
    assert seconds(timed(*facts)) == 3.0


def test_a_question_that_nobody_took_up_again_keeps_no_clock_standing() -> None:
    facts = [(0, begins(1)), (2, question("old")), (100, begins(2)), (103, question("new")), (110, answer("new"))]
    assert seconds(timed(*facts, (112, TaskProgress(1.0)))) == 7.0


# Any run, cut off anywhere


@dataclass
class Worker:
    """A run as it charges its budget and reports, on a clock of its own."""

    now: float = 0.0
    facts: list[tuple[float, Any]] = field(default_factory=list)
    used: list[BudgetUsage] = field(default_factory=list)
    answered: int = 0

    def __post_init__(self) -> None:
        self.budget = BudgetEnforcer(RunBudget(), clock=lambda: self.now)
        self.tell(begins(1))

    def tell(self, fact: Any) -> None:
        self.facts.append((self.now, fact))
        self.used.append(replace(self.budget.usage, steps=self.answered))

    def act(self, name: str, *, asked_s: int | None, waits: bool) -> None:
        self.budget.check_tool_call()
        self.tell(of(name, ActionRequested(action(name), position=name)))
        if asked_s is not None:
            with self.budget.paused():
                self.tell(question(f"r-{name}", name))
                if waits:
                    self.now += 1
                    self.tell(TaskProgress(None, "still waiting"))
                self.now += asked_s
                self.tell(answer(f"r-{name}"))
        self.tell(of(name, ActionStarted("tool.call", name)))
        self.now += 1
        self.tell(of(name, ActionEnded("tool.call", name, name)))

    def think(self, step: int, estimate: int, known: int | None, written: int) -> None:
        self.budget.check_step()
        self.tell(ContextPrepared(ContextManifest(user_tokens=estimate), step))
        self.budget.check_llm_call(estimate)
        self.tell(LlmCallStarted(f"c/{step}", step=step))
        self.now += 2
        self.answered += 1
        self.budget.record_output_tokens(written)
        if known is not None:
            self.budget.correct_input_tokens(estimate, known)
        self.tell(LlmCallCompleted(f"c/{step}", step=step, input_tokens=known, output_tokens=written))


DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("act"), st.none() | st.integers(0, 50), st.booleans()),
        st.tuples(st.just("think"), st.integers(0, 99), st.none() | st.integers(0, 99), st.integers(0, 99)),
        st.tuples(st.just("rest"), st.integers(0, 9)),
    ),
    max_size=8,
)


def run_of(deeds: list[tuple[Any, ...]]) -> Worker:
    worker = Worker()
    for index, (deed, *details) in enumerate(deeds):
        if deed == "act":
            worker.act(f"a{index}", asked_s=details[0], waits=details[1])
        elif deed == "think":
            worker.think(index, *details)
        else:
            worker.now += details[0]
            worker.tell(TaskProgress(None, "still there"))
    return worker


@given(DEEDS)
def test_wherever_a_log_ends_the_journal_has_counted_what_the_run_had(deeds: list[tuple[Any, ...]]) -> None:
    worker = run_of(deeds)
    for end in range(1, len(worker.facts) + 1):
        usage = timed(*worker.facts[:end]).usage or BudgetUsage()
        assert usage == worker.used[end - 1]


@given(DEEDS, st.data())
def test_a_log_that_is_read_in_pieces_gives_the_same_journal(deeds: list[tuple[Any, ...]], data: Any) -> None:
    facts = run_of(deeds).facts
    whole = timed(*facts)
    cut = data.draw(st.integers(0, len(facts)))
    events = [
        replace(event, timestamp=iso_from_micros(FIRST_MICROS + int(second * 1e6)))
        for (second, _), event in zip(facts, at(fact for _, fact in facts), strict=True)
    ]
    pieces = Journal()
    pieces.take(events[:cut])
    pieces.take(events[cut:])
    assert (pieces.usage, pieces.actions, pieces.answers) == (whole.usage, whole.actions, whole.answers)


@given(DEEDS)
def test_a_longer_log_only_adds_to_what_a_shorter_one_says(deeds: list[tuple[Any, ...]]) -> None:
    facts = run_of(deeds).facts
    before: dict[str, ActionRecord] = {}
    for end in range(len(facts) + 1):
        journal = timed(*facts[:end])
        actions = journal.actions
        assert list(actions)[: len(before)] == list(before)
        for position, known in before.items():
            now = actions[position]
            assert now.action.action_id == known.action.action_id
            assert now.started >= known.started
            assert now.requests[: len(known.requests)] == known.requests
            assert known.answers.items() <= now.answers.items()
            assert known.ended in (None, now.ended)
        before = actions
