"""The parts of NiceGUI that the application uses and NiceGUI does not document. Only this module uses them."""

from __future__ import annotations

from asyncio import Task
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from types import MethodType
from typing import Any

from nicegui import Client, app, background_tasks, core, helpers
from nicegui.elements.mixins.text_element import TextElement
from nicegui.elements.mixins.validation_element import ValidationElement
from nicegui.elements.mixins.value_element import ValueElement

__all__ = [
    "TextElement",
    "ValidationElement",
    "ValueElement",
    "free_at_once",
    "open_clients",
    "remember_signatures",
    "running_tasks",
    "socket_server",
]


def open_clients() -> Mapping[str, Client]:
    """The open pages of this process by their random ids."""
    return Client.instances


def running_tasks() -> AbstractSet[Task[Any]]:
    """NiceGUI's background tasks, such as the async handlers of events."""
    return background_tasks.running_tasks  # pyright: ignore - partly untyped in NiceGUI


def socket_server() -> Any:
    """The server of the pages' websockets, of python-socketio."""
    return core.sio


def remember_signatures() -> None:
    """Have NiceGUI inspect the signature of each method only once.

    It inspects the same three methods for every element, which takes about a fifth of a page's CPU.
    """
    helpers.expects_arguments = remembered(helpers.expects_arguments)  # pyright: ignore - partly untyped in NiceGUI


def free_at_once() -> None:
    """Free the elements of a page as soon as it is deleted.

    Three objects of each element are in reference cycles. Python frees those only by a full garbage collection, which
    blocks everything, up to two seconds if many pages were left.
    """
    app.on_delete(_cut_cycles)  # pyright: ignore[reportUnknownMemberType] - partly untyped in NiceGUI


def _cut_cycles(deleted: Client) -> None:
    for element in deleted.elements.values():
        for part in (element.classes, element.style, element.props):
            part._change_handlers.clear()  # pyright: ignore - private, and partly untyped


def remembered(ask: Callable[[Callable[..., Any]], bool]) -> Callable[[Callable[..., Any]], bool]:
    """Cache a function's answers about methods, by the function of the method."""
    known: dict[Callable[..., Any], bool] = {}

    def answer(function: Callable[..., Any]) -> bool:
        if not isinstance(function, MethodType):
            return ask(function)
        method = function.__func__
        if method not in known:
            known[method] = ask(function)
        return known[method]

    return answer
