"""References within a configuration: `$ref: '#/assertionTemplates/short'`."""

from __future__ import annotations

from typing import Any, cast

from evalflow.errors import Problem, UserError
from evalflow.importers.located import LocatedList, LocatedMap

_MOST = 200_000  # values with all references written out


def resolved(document: LocatedMap) -> LocatedMap:
    """The document with its references written out; UserError for one that leads nowhere, or to itself."""
    return cast("LocatedMap", _Resolver(document).value(document, ()))


class _Resolver:
    """Writes out references, and counts what that makes."""

    def __init__(self, document: LocatedMap) -> None:
        self._document = document
        self._count = 0

    def value(self, value: Any, through: tuple[str, ...]) -> Any:
        """A value with all references in it written out."""
        self._count += bool(through)
        if self._count > _MOST:
            raise UserError(Problem(f"its references make more than {_MOST:,} values", self._document.where))
        if isinstance(value, LocatedMap):
            reference = value.get("$ref")
            if isinstance(reference, str):
                return self._target(reference, value, through)
            found = LocatedMap(value.file, value.line)
            found.update({key: self.value(inner, through) for key, inner in value.items()})
            found.lines = value.lines
            return found
        if isinstance(value, LocatedList):
            items = LocatedList(value.file, value.line)
            items.extend(self.value(inner, through) for inner in value)
            items.lines = value.lines
            return items
        return value

    def _target(self, reference: str, at: LocatedMap, through: tuple[str, ...]) -> Any:
        if reference in through:
            raise UserError(Problem(f"the reference {reference} leads to itself", at.where))
        if not reference.startswith("#/"):
            hint = "write it into this file: $ref: '#/NAME'"
            raise UserError(Problem(f"the reference {reference} leads out of the file", at.where, hint))
        found: Any = self._document
        for key in reference[2:].split("/"):
            name = key.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise UserError(Problem(f"the reference {reference} leads nowhere: there is no {name}", at.where))
            found = cast("dict[str, Any]", found)[name]
        return self.value(found, (*through, reference))
