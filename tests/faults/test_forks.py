"""A process that forks: its child does not share connections and threads with it."""

import os

import pytest

from protolink_grpc.models.ids import new_uuid


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the child only writes and leaves
def test_a_forked_child_repeats_no_random_tail_of_its_parent():
    new_uuid()  # the parent holds drawn tails now
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, new_uuid().encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        theirs = pipe.read().decode()
    assert theirs[19:] != new_uuid()[19:]
