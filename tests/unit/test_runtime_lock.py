"""The lock around the appends of one task."""

import asyncio

from protolink_grpc.runtime.append_lock import AppendLock


async def test_a_free_lock_is_taken_at_once_and_a_held_one_is_not() -> None:
    lock = AppendLock()
    assert lock.try_acquire()
    assert not lock.try_acquire()
    lock.release()
    assert lock.try_acquire()


async def test_tasks_that_wait_get_the_lock_in_the_order_in_which_they_came() -> None:
    lock, order = AppendLock(), list[int]()

    async def use(number: int) -> None:
        await lock.acquire()
        order.append(number)
        await asyncio.sleep(0)
        lock.release()

    assert lock.try_acquire()
    tasks = [asyncio.ensure_future(use(number)) for number in range(5)]
    await asyncio.sleep(0)
    lock.release()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4]
    assert lock.try_acquire()


async def test_a_lock_that_is_handed_over_cannot_be_taken_by_others() -> None:
    lock = AppendLock()
    assert lock.try_acquire()
    waiting = asyncio.ensure_future(lock.acquire())
    await asyncio.sleep(0)
    lock.release()
    assert not lock.try_acquire()
    await waiting


async def test_a_canceled_wait_leaves_the_lock_to_the_next() -> None:
    lock = AppendLock()
    assert lock.try_acquire()
    first, second = asyncio.ensure_future(lock.acquire()), asyncio.ensure_future(lock.acquire())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    lock.release()
    await asyncio.wait_for(second, 1)


async def test_a_wait_that_is_canceled_as_it_gets_the_lock_passes_it_on() -> None:
    lock = AppendLock()
    assert lock.try_acquire()
    first, second = asyncio.ensure_future(lock.acquire()), asyncio.ensure_future(lock.acquire())
    await asyncio.sleep(0)
    lock.release()
    first.cancel()
    await asyncio.wait([first])
    assert first.cancelled()
    await asyncio.wait_for(second, 1)
    lock.release()
    assert lock.try_acquire()
