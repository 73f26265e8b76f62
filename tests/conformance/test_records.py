"""The contract of records, for every store, with kinds of records that only this file declares."""

import asyncio
import enum
import random
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from protolink_grpc.errors import InvalidArgumentError, StoreError
from protolink_grpc.storage import memory_records
from protolink_grpc.storage.memory import MemoryStore
from protolink_grpc.storage.port import TaskStore
from protolink_grpc.storage.records import Kind, Records, page_of
from protolink_grpc.storage.sqlite import log
from protolink_grpc.storage.sqlite.records import tables_of
from protolink_grpc.storage.sqlite.store import SQLiteStore

PATIENCE_S = 20.0


class Color(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Note:
    shelf: str
    id: str
    number: int = 0
    weight: float = 1.5
    color: Color = Color.RED
    worker: str = ""
    done: bool = False
    revision: int = 0
    body: bytes = field(default=b"", repr=False)


def _merge(known: Note, new: Note) -> Note:
    if new.number < known.number:
        raise InvalidArgumentError("must not go back", field="number")
    return new


NOTES = Kind(
    Note,
    name="notes",
    key=("shelf", "id"),
    order=("number", "id"),
    indexes=(("shelf", "color", "number"),),
    lazy=("body",),
    watched=True,
    claimed=True,
    merge=_merge,
)


@dataclass(frozen=True, slots=True)
class Line:
    book: str
    chapter: str
    place: int
    text: str


LINES = Kind(Line, name="lines", key=("book", "chapter", "place"))


@dataclass(frozen=True, slots=True)
class Turn:
    session: int
    id: int
    thread: str
    color: Color
    position: int


TURNS = Kind(
    Turn,
    name="turns",
    key=("session", "id"),
    order=("position", "id"),
    indexes=(("session", "thread", "position", "id"), ("session", "thread", "color")),
)


@pytest.fixture(params=["memory", "sqlite"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[TaskStore]:
    if request.param == "memory":
        store: TaskStore = MemoryStore()
    else:
        tables = {**log.SCHEMA.tables, **tables_of(NOTES, LINES, TURNS)}
        monkeypatch.setattr(log, "SCHEMA", replace(log.SCHEMA, tables=tables))
        store = SQLiteStore(tmp_path / "tasks.db")
    await store.open()
    await store.heartbeat(60.0)
    yield store
    await store.close()


async def put(store: TaskStore, *notes: Note) -> list[Note]:
    return await store.change(lambda records: [records.put(NOTES, note) for note in notes])


async def get(store: TaskStore, note_id: str, *, whole: bool = False) -> Note | None:
    return await store.view(lambda records: records.get(NOTES, "shelf", note_id, whole=whole))


async def test_a_record_is_kept_as_it_was_put_with_its_revision(store: TaskStore) -> None:
    note = Note("shelf", "Ω'\"%_\x00", 7, 0.25, Color.BLUE, "somebody", True)
    [kept] = await put(store, note)
    assert kept == replace(note, revision=kept.revision)
    assert await get(store, note.id) == kept
    assert kept is not None
    assert type(kept.color) is Color
    assert kept.done is True
    assert await get(store, "other") is None


def listed(records: Records, **query: Any) -> list[Turn]:
    return records.select(TURNS, **query)


@pytest.mark.parametrize("seed", range(20))
async def test_lists_by_an_index_follow_every_change(
    store: TaskStore, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_records, "MANY", 4)
    rng, known = random.Random(seed), dict[int, Turn]()

    def change(records: Records, *, fails: bool) -> None:
        for _ in range(rng.randrange(5)):
            turn_id = rng.randrange(40)
            if rng.random() < 0.3:
                records.delete(TURNS, 1, turn_id)
                after.pop(turn_id, None)
            else:
                turn = Turn(1, turn_id, rng.choice("ab"), rng.choice(list(Color)), rng.randrange(30))
                after[turn_id] = records.put(TURNS, turn)
        if fails:
            raise InvalidArgumentError("no")

    for _ in range(60):
        after = dict(known)
        fails = rng.random() < 0.2
        with pytest.raises(InvalidArgumentError) if fails else nullcontext():
            await store.change(partial(change, fails=fails))
        known = known if fails else after
        thread, color, reverse = rng.choice("abc"), rng.choice(list(Color)), rng.random() < 0.5
        limit, start = rng.choice([None, 1, 3]), rng.choice([None, (rng.randrange(30), rng.randrange(40))])
        for where in ({"session": 1, "thread": thread}, {"session": 1, "thread": thread, "color": color}):
            expected = [each for each in known.values() if all(getattr(each, k) == v for k, v in where.items())]
            expected.sort(key=lambda each: (each.position, each.id), reverse=reverse)
            if start is not None:
                place = start
                expected = [
                    each
                    for each in expected
                    if ((each.position, each.id) < place if reverse else (each.position, each.id) > place)
                ]
            found = await store.view(partial(listed, where=where, after=start, limit=limit, reverse=reverse))
            assert found == expected[:limit]


async def test_a_list_by_an_index_in_memory_does_not_compare_the_other_records(monkeypatch: pytest.MonkeyPatch) -> None:
    store, compared = MemoryStore(), list[object]()
    matches = memory_records._matches
    monkeypatch.setattr(memory_records, "_matches", lambda *given: (compared.append(given), matches(*given))[1])
    turns = [Turn(1, number, "side" if number in (7, 9) else "main", Color.RED, number) for number in range(1000)]
    await store.change(lambda records: [records.put(TURNS, each) for each in turns])
    where = {"session": 1, "thread": "side"}
    found = await store.view(lambda records: records.select(TURNS, where, limit=21, reverse=True))
    assert found == [turns[9], turns[7]]
    assert len(compared) == 2


@pytest.mark.parametrize("distance", [1, 5, 100])
async def test_records_are_listed_in_order_also_if_they_are_put_in_another_one(store: TaskStore, distance: int) -> None:
    places = [place ^ distance for place in range(256)]

    def put_lines(records: Records) -> None:
        for place in places:
            records.put(LINES, Line("book", "1", place, str(place)))

    def read(records: Records) -> tuple[list[int], list[int], list[int]]:
        where = {"book": "book"}
        every = records.select(LINES, where)
        newest = records.select(LINES, where, limit=3, reverse=True)
        older = records.select(LINES, where, after=("book", "1", 100), limit=3, reverse=True)
        return [each.place for each in every], [each.place for each in newest], [each.place for each in older]

    await store.change(put_lines)
    assert await store.view(read) == (list(range(256)), [255, 254, 253], [99, 98, 97])


async def test_lazy_fields_are_written_once_and_read_when_asked_for(store: TaskStore) -> None:
    [kept] = await put(store, Note("shelf", "a", body=b"long"))
    assert kept.body == b""
    await put(store, Note("shelf", "a", 2, body=b"other"))
    whole = await get(store, "a", whole=True)
    assert whole is not None
    assert (whole.number, whole.body) == (2, b"long")
    light = await get(store, "a")
    assert light is not None
    assert light.body == b""


async def test_a_transaction_that_fails_changes_nothing(store: TaskStore) -> None:
    await put(store, Note("shelf", "a", 1), Note("shelf", "b", 2))
    before = await store.view(lambda records: (records.select(NOTES, {"shelf": "shelf"}), _latest(records)))

    def work(records: Records) -> None:
        records.put(NOTES, Note("shelf", "c", 3))
        records.put(NOTES, Note("shelf", "a", 9))
        records.delete(NOTES, "shelf", "b")
        records.put(NOTES, Note("other", "d", 3))
        records.put(NOTES, Note("shelf", "a", 0))  # refused by the merge

    with pytest.raises(InvalidArgumentError):
        await store.change(work)
    after = await store.view(lambda records: (records.select(NOTES, {"shelf": "shelf"}), _latest(records)))
    assert after == before
    assert await store.view(lambda records: records.select(NOTES, {"shelf": "other"})) == []
    [changed] = await put(store, Note("shelf", "a", 5))
    assert changed.revision == before[1] + 1
    changes = await store.view(lambda records: records.changes(NOTES, "shelf", before[1], 9, where={}))
    assert [each.id for each in changes] == ["a"]


def _latest(records: Records) -> int:
    return records.revisions(NOTES, "shelf").latest


async def test_of_transactions_at_once_the_one_that_fails_fails_alone(store: TaskStore) -> None:
    def half(records: Records) -> None:
        records.put(NOTES, Note("shelf", "half", 1))
        raise InvalidArgumentError("no", field="f")

    def mistake(records: Records) -> None:
        records.put(NOTES, Note("shelf", "half", 1))
        raise ZeroDivisionError

    outcomes = await asyncio.gather(
        put(store, Note("shelf", "a")),
        store.change(half),
        store.change(mistake),
        put(store, Note("shelf", "b")),
        return_exceptions=True,
    )
    assert [isinstance(each, Exception) for each in outcomes] == [False, True, True, False]
    assert isinstance(outcomes[1], InvalidArgumentError)
    assert isinstance(outcomes[2], (StoreError, ZeroDivisionError))
    assert await get(store, "half") is None
    assert await get(store, "a") is not None
    assert await get(store, "b") is not None


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", [1, 3, 100])
async def test_pages_joined_are_what_matches_in_the_order_of_the_kind(
    store: TaskStore, size: int, reverse: bool
) -> None:
    chance = random.Random(size)
    notes = [Note("shelf", f"n{n}", chance.randrange(5), color=chance.choice(list(Color))) for n in range(40)]
    await put(store, *notes, Note("other", "x"))
    for where in ({}, {"color": Color.RED}, {"color": frozenset({Color.BLUE}), "number": 3}, {"done": True}):
        expected = sorted(
            (each for each in notes if _matches(each, where)), key=lambda each: (each.number, each.id), reverse=reverse
        )
        listed: list[str] = []
        after = None
        while True:
            select = _selection({"shelf": "shelf", **where}, after, size + 1, reverse)
            page = page_of(NOTES, await store.view(select), size)
            listed += [each.id for each in page.records]
            after = page.next
            if after is None:
                break
        assert listed == [each.id for each in expected]


def _selection(where: dict[str, Any], after: Any, limit: int, reverse: bool) -> Callable[[Records], list[Note]]:
    return lambda records: records.select(NOTES, where, after=after, limit=limit, reverse=reverse)


def _matches(note: Note, where: Any) -> bool:
    return all(
        getattr(note, name) in wanted if isinstance(wanted, frozenset) else getattr(note, name) == wanted
        for name, wanted in where.items()
    )


async def test_lists_end_where_they_are_limited_and_begin_behind_a_position_in_either_direction(
    store: TaskStore,
) -> None:
    lines = [Line("book", "one", place, f"line {place}") for place in range(10)]
    await store.change(lambda records: [records.put(LINES, each) for each in random.Random(1).sample(lines, 10)])
    await store.change(lambda records: records.put(LINES, Line("book", "two", 0, "other")))
    where = {"book": "book", "chapter": "one"}
    found = await store.view(lambda records: records.select(LINES, where, after=("book", "one", 3), limit=2))
    assert found == lines[4:6]
    found = await store.view(
        lambda records: records.select(LINES, where, after=("book", "one", 3), limit=2, reverse=True)
    )
    assert found == [lines[2], lines[1]]


async def test_deleting_by_a_part_of_the_key_deletes_all_of_it_and_nothing_else(store: TaskStore) -> None:
    lines = [Line("book", chapter, place, "") for chapter in ("one", "two") for place in range(3)]
    await store.change(lambda records: [records.put(LINES, each) for each in lines])
    assert await store.change(lambda records: records.delete(LINES, "book", "one", 1)) == 1
    assert await store.change(lambda records: records.delete(LINES, "book", "one")) == 2
    assert await store.change(lambda records: records.delete(LINES, "book", "one")) == 0
    assert await store.view(lambda records: records.select(LINES, {"book": "book"})) == lines[3:]


async def test_a_view_sees_one_moment(store: TaskStore) -> None:
    await put(store, Note("shelf", "a", 1), Note("shelf", "b", 1))

    def both(records: Records) -> set[int]:
        return {each.number for name in "ab" if (each := records.get(NOTES, "shelf", name)) is not None}

    async def write() -> None:
        for number in range(2, 30):
            await put(store, Note("shelf", "a", number), Note("shelf", "b", number))

    writing = asyncio.create_task(write())
    while not writing.done():
        assert len(await store.view(both)) == 1
        await asyncio.sleep(0)
    await writing


async def test_changes_come_by_revision_and_a_reader_begins_with_what_matches(store: TaskStore) -> None:
    a, b, c = await put(store, Note("shelf", "a"), Note("shelf", "b", color=Color.BLUE), Note("shelf", "c"))
    await put(store, Note("other", "x"))
    assert (a.revision + 1, b.revision + 1) == (b.revision, c.revision)
    [a] = await put(store, Note("shelf", "a", 1))

    def changes(after: int, until: int = 0, limit: int = 9) -> Callable[[Records], list[str]]:
        return lambda records: [
            each.id for each in records.changes(NOTES, "shelf", after, limit, where={"color": Color.RED}, until=until)
        ]

    assert await store.view(changes(0)) == ["b", "c", "a"]
    assert await store.view(changes(0, limit=2)) == ["b", "c"]
    assert await store.view(changes(0, until=c.revision)) == ["c", "a"]
    assert await store.view(changes(a.revision)) == []


async def test_a_reader_wakes_at_a_change_of_its_kind_and_scope_only(store: TaskStore) -> None:
    latest = await store.view(_latest)
    waiting = asyncio.create_task(store.wait_change(NOTES, "shelf", latest))
    await put(store, Note("other", "x"))
    await store.change(lambda records: records.put(LINES, Line("shelf", "", 0, "")))
    for _ in range(3):
        await store.view(_latest)
    assert not waiting.done()
    await put(store, Note("shelf", "a"))
    async with asyncio.timeout(PATIENCE_S):
        await waiting
        await store.wait_change(NOTES, "shelf", latest)


async def test_records_that_nobody_works_on_are_claimed_once_in_order(store: TaskStore) -> None:
    notes = [Note("shelf", f"n{number}", 9 - number, worker="gone") for number in range(5)]
    await put(store, *notes, Note("shelf", "done", done=True), Note("other", "x"))
    claimed = await store.claim(NOTES, "shelf")
    assert [each.id for each in claimed] == ["n4", "n3", "n2", "n1", "n0"]
    assert {each.worker for each in claimed} == {store.worker}
    assert await store.claim(NOTES, "shelf") == []
    await store.release_claims(NOTES, "shelf")
    assert len(await store.claim(NOTES, "shelf")) == 5
