"""The prompt of a trial: what is shown was rendered last, whichever rendering ends last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from nicegui import Client, ui
from nicegui.elements.mixins.text_element import TextElement
from nicegui.page import page

from evalflow.addons.studio.web.pages.metric_trial import TrialCard
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.sent_prompts import PromptPreview, SentPrompt
from evalflow.addons.studio.work.space import Workspace, open_workspace


async def soon(is_so: Callable[[], bool]) -> None:
    """Let the tasks run until something is so."""
    for _ in range(1000):
        if is_so():
            return
        await asyncio.sleep(0)
    pytest.fail("nothing more happens")


class Renders:
    """Renderings that are under way; each ends when it is told to."""

    def __init__(self) -> None:
        self.ends: list[asyncio.Future[str]] = []

    async def render(self, _: Callable[[], object]) -> PromptPreview:
        end = asyncio.get_running_loop().create_future()
        self.ends.append(end)
        prompt = SentPrompt("short", "grade", [("user", await end)], None)
        return PromptPreview("the judge", "a model", [prompt])

    async def begun(self, count: int) -> None:
        await soon(lambda: len(self.ends) >= count)


def shown(card: ui.element) -> list[str]:
    return [one.text for one in card.descendants() if isinstance(one, TextElement) and one.tag == "pre"]


@pytest.mark.anyio
async def test_an_earlier_rendering_does_not_replace_a_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    renders = Renders()
    monkeypatch.setattr(Workspace, "render", lambda _, work: renders.render(work))
    client = Client(page("/"), request=None)
    with client, ui.element("div") as place:
        trial: Any = TrialCard(open_workspace(), "desk", {}, lambda: MetricDraft("short", {}), {})

        async def press() -> None:
            with place:
                await trial._preview()

        async def type_in() -> None:
            with place:
                await trial.follow()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(press())
            await renders.begun(1)
            renders.ends[0].set_result("pressed")
            await soon(lambda: shown(place) == ["pressed"])
            tasks.create_task(type_in())
            await renders.begun(2)
            pressed = tasks.create_task(press())
            await renders.begun(3)
            tasks.create_task(type_in())  # while that is rendered, so it is rendered again
            await asyncio.sleep(0)
            renders.ends[2].set_result("pressed again")
            await renders.begun(4)
            renders.ends[3].set_result("typed last")
            await pressed
            renders.ends[1].set_result("typed first")
        assert shown(place) == ["typed last"]
    client.delete()
