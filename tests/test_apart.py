"""Work in a thread of its own is ended when it takes too long or is waited for no more."""

import asyncio
import threading

import pytest

from evalflow.apart import TooSlow, apart, within


class Endless:
    """Counts until it is ended."""

    def __init__(self):
        self.begun, self.ended = threading.Event(), threading.Event()

    def __call__(self):
        self.begun.set()
        try:
            while True:
                pass
        finally:
            self.ended.set()


def test_what_work_gives_or_raises_comes_back():
    assert within(60, "it", lambda: 7) == 7
    assert asyncio.run(apart(lambda: 7)) == 7
    for call in (lambda work: within(60, "it", work), lambda work: asyncio.run(apart(work))):
        with pytest.raises(ZeroDivisionError):
            call(lambda: 1 / 0)


def test_what_takes_too_long_is_given_up_and_ends():
    work = Endless()
    with pytest.raises(TooSlow, match=r"^counting takes more than 0\.01 s$"):
        within(0.01, "counting", work)
    assert work.ended.wait(60)


def test_a_task_that_is_cancelled_ends_its_work_and_what_that_waits_for():
    async def cancelled(work, begun):
        task = asyncio.create_task(apart(begun))
        await asyncio.to_thread(work.begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    for begun in (lambda work: work, lambda work: lambda: within(3600, "counting", work)):
        work = Endless()
        asyncio.run(cancelled(work, begun(work)))
        assert work.ended.wait(60)
