"""The same metric as YAML, with its templates: for every kind, and for all that has no field in the form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalflow.app.workspace.metric_yaml import KEY, metric_yaml, read_metric_yaml
from evalflow.web.pages.forms import About, Field, area
from evalflow.web.pages.naming import NameField
from evalflow.web.pages.parts import text


class YamlForm:
    """A field with the YAML, and one for each template.

    Args:
        definition: What to begin with.
        prompts: Its own templates by name.
        name: None for a new metric, which may still choose one.
        proposed: A name for a new metric.
    """

    def __init__(
        self, definition: Mapping[str, Any], prompts: Mapping[str, str], name: str | None, proposed: str = ""
    ) -> None:
        self._name, self._naming = name, None
        self.fields: dict[str, Field] = {}
        if name is None:
            self._naming = NameField("ISO date", proposed)
            self.fields["metric.name"] = self._naming.field
        help = "What the metric's file would hold below its package line; checked as the command line checks it."
        about = About("YAML", help, "kind: check", required=True, code=True)
        self.fields[KEY] = area(about, metric_yaml(definition) if definition else "")
        self._prompts = {
            file: area(
                About(
                    file,
                    "What the judge is sent, with names in braces where the case belongs, such as {{ question }}.",
                    required=True,
                    code=True,
                ),
                source,
            )
            for file, source in prompts.items()
        }
        if not prompts:
            text("A metric that is copied from the library brings its templates along.", classes="aside")
        self.fields |= {Path(file).name: field for file, field in self._prompts.items()}  # a copy's folder is another

    def named(self) -> str:
        """What the metric is called, or will be."""
        return self._naming.read() if self._naming else self._name or ""

    def read(self) -> dict[str, Any]:
        """The definition.

        Raises:
            UserError: It is no YAML.
        """
        return read_metric_yaml(str(self.fields[KEY].value or ""))

    def prompts(self) -> dict[str, str]:
        """The templates as they stand in their fields."""
        return {file: str(field.value or "") for file, field in self._prompts.items()}
