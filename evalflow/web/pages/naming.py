"""The name of what is new: people write a title, and see the name that it gives in tables and files."""

from __future__ import annotations

import re
import unicodedata

from evalflow.config.schema import IDENTIFIER
from evalflow.web.pages.forms import About, line, written
from evalflow.web.pages.parts import text

_OTHERS = re.compile(r"[^a-z0-9]+")


class NameField:
    """A field that takes `Factual Accuracy` and gives `factual_accuracy`.

    What it gives is told while one types, and stands in the field once one leaves it, where it can be changed.

    Args:
        example: A title, shown while the field is empty.
        value: To begin with.

    Attributes:
        field: The field itself, for faults.
    """

    def __init__(self, example: str, value: str = "") -> None:
        help = f"As you call it, such as “{example}”; tables and files have it as {name_of(example)}."
        self.field = line(About("Name", help, example, required=True), value)
        self._told = text("", classes="aside").props("aria-live=polite")
        self.field.on_value_change(self._tell)
        self.field.on("blur", self._settle)

    def read(self) -> str:
        """The name, or what was written where no name can be made of it."""
        said = written(self.field) or ""
        return name_of(said) or said

    def _tell(self) -> None:
        name = self.read()
        self._told.set_text(f"It will be {name}." if name != (written(self.field) or "") else "")

    def _settle(self) -> None:
        self.field.value = self.read()


def name_of(title: str) -> str:
    """A title as a name of configuration: `Fees & refunds` gives `fees_refunds`, and a name is one already.

    Returns:
        Nothing where the title does not begin with a letter that has a likeness among a to z.
    """
    if IDENTIFIER.match(title):
        return title
    letters = unicodedata.normalize("NFKD", title.casefold())
    plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    name = _OTHERS.sub("_", plain).strip("_")
    return name if IDENTIFIER.match(name) else ""
