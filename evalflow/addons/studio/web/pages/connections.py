"""The connections: the addresses that a public server may call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import Saving, delete_button, edited
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.parts import (
    Tone,
    badge,
    button,
    cell,
    empty,
    link_button,
    table,
    table_row,
    text,
)
from evalflow.addons.studio.web.ui.visitor import may
from evalflow.addons.studio.work import connections
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.titles import name_for

_TRAIL = [("Connections", "/connections")]
_ABOUT = "The services that bots and judges are called at, each with its key. On a public server no other is called."
_NAME = forms.About("Name", "The name by which bots and judges choose it.", "openai", required=True, code=True)
_ADDRESS = forms.About(
    "Address", "All that is below it belongs to it.", "https://api.openai.com/v1", required=True, code=True
)
_KEY = forms.About(
    "API key",
    "The name of the server's environment variable that holds the key, never the key itself. Empty: it needs none.",
    "OPENAI_API_KEY",
    code=True,
)
_NETWORKS = forms.About(
    "Networks",
    "Where the address may lead to, one per line: public for the internet, or ranges of your own network.",
    "10.20.0.0/16",
    required=True,
    code=True,
)
_DESCRIPTION = forms.About("Description", "One sentence for those who choose it.", "Our contract with OpenAI.")


@guarded_page("/connections", "edit")
async def _listed_page(workspace: Workspace) -> None:
    entries = await to_thread.run_sync(connections.list_connections, workspace)
    with frame("Connections", place="Connections", about=_ABOUT) as actions:
        if entries:
            if may("own"):
                with actions:
                    link_button("New connection", "/connections/new", primary=True)
            _table(entries)
        elif may("own"):
            about = "Add the services that bots and judges may call: an address, its key and its networks."
            empty("cable", "No connections yet", about, ("New connection", "/connections/new"))
        else:
            empty("cable", "No connections yet", "The owner of this server adds them.")


@guarded_page("/connections/new", "own")
async def _new_page(workspace: Workspace) -> None:
    with frame("New connection", place="Connections", trail=_TRAIL):
        _ConnectionForm(workspace, None)


@guarded_page("/connections/{connection}", "own")
async def _edit_page(workspace: Workspace, connection: str) -> None:
    stored = await to_thread.run_sync(connections.get_connection, workspace, connection)
    with frame(f"Edit {stored.name}", place="Connections", trail=_TRAIL) as actions:
        with actions:
            about = "It must not be in use. If it is, the uses are listed and nothing is deleted."
            delete = partial(connections.delete_connection, workspace, connection)
            seen = edited(connections.get_connection, workspace, _content, stored)
            delete_button(seen, connection, about, delete, "/connections")
        _ConnectionForm(workspace, stored)


def _table(entries: Sequence[connections.StoredConnection]) -> None:
    with table(("Connection", "Address", "Key", "Networks"), "table stacked connections"):
        for one in entries:
            with table_row(one.name, one.description, f"/connections/{one.name}" if may("own") else ""):
                with cell("Address", classes=""):
                    text(one.address, "span", "mono")
                with cell("Key", classes=""), ui.element("div").classes("actions"):
                    if one.api_key_env:
                        text(one.api_key_env, "span", "mono")
                    badge(*_key_state(one))
                cell("Networks", ", ".join(one.networks), "")


def _key_state(one: connections.StoredConnection) -> tuple[str, Tone]:
    if one.is_key_set is None:
        return "needs no key", ""
    return ("set", "pass") if one.is_key_set else ("not set", "fail")


def _content(one: connections.StoredConnection) -> dict[str, Any]:
    content = {"address": one.address, "api_key_env": one.api_key_env, "networks": list(one.networks)}
    return {**content, "description": one.description}


class _ConnectionForm:
    """The form of a connection; of a new one if `stored` is None."""

    def __init__(self, workspace: Workspace, stored: connections.StoredConnection | None) -> None:
        self._workspace, self._stored = workspace, stored
        self._fields: dict[str, forms.Field] = {}
        with forms.form():
            if stored is None:
                self._name = forms.line(_NAME)
                self._name.on("blur", self._settle, args=[])
                self._fields["connection.name"] = self._name
            self._address = forms.line(_ADDRESS, stored.address if stored else "")
            self._key = forms.line(_KEY, stored.api_key_env if stored else "")
            self._networks = forms.area(_NETWORKS, "\n".join(stored.networks if stored else ["public"]))
            self._description = forms.line(_DESCRIPTION, stored.description if stored else "")
            self._fields |= {
                "connection.address": self._address,
                "connection.api_key_env": self._key,
                "connection.networks": self._networks,
                "connection.description": self._description,
            }
            with ui.element("div").classes("actions"):
                self._button = button("Save" if stored else "Add", self._save, kind="primary")
                link_button("Cancel", "/connections")
        seen = edited(connections.get_connection, workspace, _content, stored)
        self._saving = Saving(seen, f"/connections/{stored.name if stored else ''}")

    def _settle(self) -> None:
        """Turn the typed text into a valid name."""
        if typed := forms.written(self._name):
            self._name.value = name_for(typed, (), "connection")

    async def _save(self) -> None:
        draft = connections.ConnectionDraft(
            address=forms.written(self._address) or "",
            api_key_env=forms.written(self._key),
            networks=forms.lines_of(self._networks),
            description=forms.written(self._description) or "",
        )
        mine = asdict(draft)
        name = self._stored.name if self._stored else forms.written(self._name) or ""

        def work(version: int) -> connections.StoredConnection:
            if self._stored is None:
                return connections.create_connection(self._workspace, name, draft)
            return connections.update_connection(self._workspace, name, version, mine)

        await self._saving.save(work, mine, self._fields, self._button, lambda _: forms.leave("/connections"))
