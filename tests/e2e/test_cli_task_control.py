"""`plgrpc task create`, `start`, `show` and the other commands that control a task, against a running agent."""

import shlex
from collections.abc import Iterator

import pytest
from cli_world import Done, plgrpc

from protolink_grpc import Agent, AgentCard, Task


class Clerk(Agent):
    async def handle_task(self, task: Task) -> Task:
        return task.complete("done")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    agent = Clerk(AgentCard(name="clerk", description="does as told", url="grpc://127.0.0.1:0"))
    agent.start(background=True)
    yield agent.card.url
    agent.stop()


def hinted(done: Done) -> list[str]:
    """The command that the hint shows, without the program's name."""
    (hint,) = [line for line in done.err.splitlines() if line.startswith("hint: ")]
    return shlex.split(hint.partition("plgrpc ")[2])


def created(url: str, *more: str) -> str:
    done = plgrpc("task", "create", url, "paint it", *more)
    assert (done.code, done.fields["Status"]) == (0, "draft")
    return done.fields["Task"]


def test_a_created_task_is_started_by_the_hinted_command(url: str) -> None:
    done = plgrpc("task", "create", url, "paint it", "--title", "Door", "--acceptance", "is blue", "--session", "s")
    assert (done.fields["Title"], done.fields["Acceptance"], done.fields["Session"]) == ("Door", "is blue", "s")
    task = done.fields["Task"]
    assert hinted(done) == ["task", "start", url, task]
    assert plgrpc("task", "start", url, task).code == 0
    assert plgrpc("task", "get", url, task, "--wait").fields["State"] == "completed"
    shown = plgrpc("task", "show", url, task)
    assert shown.fields["Status"] == "completed"
    assert shown.out.partition("Attempts:\n")[2].split()[:6] == ["ATTEMPT", "CAUSE", "STARTED", "TOOK", "STATUS", "1"]
    assert max(map(len, shown.out.splitlines())) <= 80


def test_the_same_request_id_creates_one_task(url: str) -> None:
    assert created(url, "--request-id", "r") == created(url, "--request-id", "r")


def test_an_update_changes_only_the_given_fields(url: str) -> None:
    task = created(url, "--title", "Door", "--priority", "low")
    changed = plgrpc("task", "update", url, task, "--priority", "high", "--constraint", "dry")
    found = changed.fields
    assert (found["Title"], found["Priority"], found["Constraint"]) == ("Door", "high", "dry")
    assert plgrpc("task", "update", url, task).code == 2


def test_a_blocked_task_waits_for_external_work(url: str) -> None:
    first = created(url)
    second = created(url, "--blocked-by", first)
    assert plgrpc("task", "start", url, second).fields["Status"] == "blocked"
    begun = plgrpc("task", "start", url, first, "--external")
    assert begun.fields["External"] == "yes"
    assert hinted(begun)[:4] == ["task", "complete", url, first]
    reported = plgrpc("task", "progress", url, first, "40", "-m", "one coat")
    assert reported.fields["Progress"] == "40 % one coat"
    assert plgrpc("task", "complete", url, first, "painted").fields["Status"] == "completed"
    assert plgrpc("task", "get", url, second, "--wait").fields["State"] == "completed"
    assert f"blocked_by  {first}  completed" in plgrpc("task", "show", url, second).out
    assert plgrpc("task", "progress", url, first).code == 2


def test_a_link_is_added_and_removed(url: str) -> None:
    task = created(url)
    linked = plgrpc("task", "link", url, task, "evidence", "https://ci.example/7", "--reason", "passed", "--json")
    (link,) = linked.document["links"]
    assert (link["link"]["kind"], link["link"]["reason"], link["state"]) == ("evidence", "passed", None)
    removed = plgrpc("task", "unlink", url, task, "evidence", "https://ci.example/7", "--json")
    assert removed.document["links"] == []
    assert plgrpc("task", "link", url, task, "likes", "x").code == 2


def test_drafts_and_blocked_tasks_are_listed_by_their_status(url: str) -> None:
    first = created(url, "--session", "listed", "--title", "Door")
    second = created(url, "--session", "listed", "--blocked-by", first)
    assert plgrpc("task", "start", url, second).fields["Status"] == "blocked"
    listed = plgrpc("task", "list", url, "--status", "draft", "--status", "blocked", "--session", "listed")
    lines = listed.out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [[second, "blocked"], [first, "draft"]]
    assert (lines[2].split()[-1], max(map(len, lines)) <= 80) == ("Door", True)
    drafts = plgrpc("task", "list", url, "--status", "draft", "--session", "listed", "-o", "json")
    assert [each["task_id"] for each in drafts.document["tasks"]] == [first]
    assert plgrpc("task", "list", url, "--status", "draft", "--since", "2026-01-31T12:00:00Z").code == 2


def test_a_table_of_links_has_at_most_80_columns(url: str) -> None:
    task, other = created(url), created(url)
    linked = plgrpc("task", "link", url, task, "blocked_by", other, "--reason", "the colour is a decision of the owner")
    assert max(map(len, linked.out.splitlines())) <= 80
    assert f"blocked_by  {other}  submitted" in linked.out


def test_a_refused_change_has_a_hint_that_fits_the_task(url: str) -> None:
    one, two = created(url), created(url)
    assert plgrpc("task", "link", url, two, "blocked_by", one).code == 0
    assert hinted(plgrpc("task", "link", url, one, "blocked_by", two))[:4] == ["task", "show", url, one]
    draft = plgrpc("task", "pause", url, one)
    assert (draft.code, hinted(draft)[:4]) == (1, ["task", "show", url, one])
    assert plgrpc("task", "complete", url, one).code == 0
    assert hinted(plgrpc("task", "progress", url, one, "50"))[:4] == ["task", "show", url, one]
    assert plgrpc("task", "retry", url, one).code == 1  # it was work outside of the agent


def test_a_failed_task_shows_its_reason(url: str) -> None:
    failed = plgrpc("task", "fail", url, created(url), "no paint")
    assert (failed.code, failed.fields["Status"], failed.fields["Reason"]) == (0, "failed", "no paint")
    again = plgrpc("task", "complete", url, failed.fields["Task"])
    assert (again.code, "is failed" in again.err) == (1, True)
