"""The agent that the fuzz tests of the ports call."""

from collections.abc import Iterator

import pytest
from hostile_world import Hostile, hostile_world


@pytest.fixture(scope="module")
def world() -> Iterator[Hostile]:
    with hostile_world() as found:
        yield found


@pytest.fixture(scope="module")
def task_id(world: Hostile) -> str:
    return world.finished_task()


@pytest.fixture
def unharmed(world: Hostile) -> Iterator[None]:
    """After the test, the agent answers, has nothing left of the calls, and has logged no error of its own."""
    yield
    world.still_answers()
    world.comes_to_rest()
    assert not world.complaints()
