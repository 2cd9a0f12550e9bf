"""The fields of where a model is called: an address and its key's variable, or one of the server's connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalflow.web.ui import forms

CONNECTION = forms.About("Connection", "The service and its key, as the owner of the server lists them.", required=True)


def endpoint_fields(
    lines: Mapping[str, forms.About],
    values: Mapping[str, Any],
    connections: Sequence[str] | None,
    *,
    about: forms.About = CONNECTION,
) -> dict[str, forms.Field]:
    """Build the fields; returns them by their keys: those of `lines`, or `connection` in place of address and key.

    `connections`: the names to choose from; None where any address may be called. `about`: of the connection.
    """
    if connections is None:
        return {key: forms.line(about, values.get(key)) for key, about in lines.items()}
    kept = {key: forms.line(about, values.get(key)) for key, about in lines.items() if key not in CALLED}
    return {**kept, "connection": pick_connection(values, connections, about)}


def pick_connection(
    values: Mapping[str, Any], connections: Sequence[str], about: forms.About = CONNECTION
) -> forms.Field:
    """The field of a connection."""
    chosen = values.get("connection")
    return forms.pick(
        about, connections if about.required else ["", *connections], chosen if chosen in connections else None
    )


CALLED = ("base_url", "api_key_env")
"""The keys that a connection stands for."""
