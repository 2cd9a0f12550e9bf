"""Operations on the form of a text in a case field: XML, HTML and SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Literal

from pydantic import Field, model_validator

from evalflow.config.schema import Word, with_examples
from evalflow.extras import install_command
from evalflow.limited import LimitExceeded, Work
from evalflow.metrics.operations import BaseOperation, QuickOperation, RuleFinding
from evalflow.metrics.reasons import one_line
from evalflow.values.jsonvalues import written

_PATIENCE_S = 2.0
_ELEMENTS = Work("evalflow.limited.html:elements")
Dialect = Literal[
    "bigquery",
    "clickhouse",
    "databricks",
    "duckdb",
    "mysql",
    "oracle",
    "postgres",
    "redshift",
    "snowflake",
    "spark",
    "sqlite",
    "trino",
    "tsql",
]
LONGEST = 50_000
"""Maximum characters of a statement."""


class MarkupOperation(BaseOperation):
    """Checks that a text is valid markup and has the required elements."""

    op: str
    elements: list[Word] = Field(default_factory=list[Word])

    def test(self, name: str, value: object, fields: Mapping[str, object]) -> RuleFinding:
        language = self.op.upper()
        try:
            missing = self._missing(written(value).strip())
        except _MarkupError as error:
            return RuleFinding(passed=False, reason=f"the {name} is not {language}: {error}")
        if missing:
            return RuleFinding(
                passed=False, reason=f"the {name} is {language} without the element {', '.join(missing)}"
            )
        return RuleFinding(passed=True, reason=f"the {name} is {language}" + " with its elements" * bool(self.elements))

    def _missing(self, text: str) -> Sequence[str]:
        """The elements that a text lacks; _MarkupError if it is not in the language."""
        raise NotImplementedError


class _MarkupError(ValueError):
    pass


class XmlOperation(MarkupOperation, QuickOperation):
    """Checks that a text is well-formed XML. A document type with entities is refused, and nothing is fetched.

    Attributes:
        elements: Elements that it must have, each as a path from the root, such as answer.source.
    """

    model_config = with_examples({"op": "xml", "elements": ["loan.days"]})
    op: Literal["xml"]  # pyright: ignore[reportIncompatibleVariableOverride]

    def _missing(self, text: str) -> Sequence[str]:
        from xml.parsers import expat

        parser = expat.ParserCreate("utf-8")  # whatever encoding the text says it has
        here: list[str] = []
        missing = {tuple(element.split(".")): element for element in self.elements}
        deepest = max(map(len, missing), default=0)

        def begin(name: str, _: Mapping[str, str]) -> None:
            here.append(name)
            if len(here) <= deepest:
                missing.pop(tuple(here), None)

        def refuse(*_: object) -> None:
            raise _MarkupError("it declares entities, which are not allowed")

        parser.StartElementHandler = begin
        parser.EndElementHandler = lambda _: here.pop()
        parser.EntityDeclHandler = refuse
        try:
            parser.Parse(text.encode("utf-8", "replace"), True)
        except expat.ExpatError as error:
            raise _MarkupError(str(error)) from None
        return list(missing.values())


class HtmlOperation(MarkupOperation):
    """Checks that a text is an HTML document or fragment: known elements, all closed, no text outside.

    End tags may be omitted where HTML allows it. Attributes and nesting rules are not checked.

    Attributes:
        elements: Elements that it must have, by name.
    """

    model_config = with_examples({"op": "html", "elements": ["td"]})
    op: Literal["html"]  # pyright: ignore[reportIncompatibleVariableOverride]

    def _missing(self, text: str) -> Sequence[str]:
        try:
            present = _ELEMENTS.call({"text": text}, _PATIENCE_S, "reading the HTML")
        except LimitExceeded:
            raise
        except ValueError as error:
            raise _MarkupError(str(error)) from None
        return [element for element in self.elements if element.lower() not in present]


class SqlOperation(BaseOperation):
    """Checks that a text is one SQL statement. Only its syntax is read, by sqlglot; tables and columns are not known.

    Attributes:
        dialect: The database whose syntax applies; null: syntax common to most databases.
        reads_only: true: it must be a query, such as SELECT; false: it may change data and tables, too.
    """

    model_config = with_examples({"op": "sql", "dialect": "postgres", "reads_only": True})
    op: Literal["sql"]
    dialect: Dialect | None = None
    reads_only: bool = False

    @model_validator(mode="after")
    def _expect_parser(self) -> SqlOperation:
        if find_spec("sqlglot") is None:
            raise ValueError(f"the operation sql needs the package sqlglot: {install_command('sql')}")
        return self

    def test(self, name: str, value: object, fields: Mapping[str, object]) -> RuleFinding:
        fault = self._fault(written(value))
        return RuleFinding(fault is None, f"the {name} is {fault or 'one SQL statement'}")

    def _fault(self, text: str) -> str | None:
        """Why a text is not one valid statement; "" if it is one."""
        import sqlglot
        from sqlglot import exp
        from sqlglot.errors import ParseError, SqlglotError

        if len(text) > LONGEST:
            return f"too long for SQL: {len(text):,} characters; the maximum is {LONGEST:,}"
        try:
            statements = [one for one in sqlglot.parse(text, dialect=self.dialect) if one is not None]
        except ParseError as error:
            fault = error.errors[0]
            return f"not SQL: line {fault['line']}, column {fault['col']}: {one_line(fault['description'], 100)}"
        except SqlglotError:  # such as an unclosed quotation mark
            return "not SQL: it cannot be split into tokens"
        except RecursionError:
            return "nested too deeply for SQL"
        if len(statements) != 1:
            return f"{len(statements)} SQL statements" if statements else "not SQL: it is empty"
        if isinstance(statements[0], exp.Query):
            return None
        if not isinstance(
            statements[0], exp.DDL | exp.Update | exp.Delete | exp.Merge | exp.Drop | exp.Alter | exp.TruncateTable
        ):
            return "not SQL: it is not a statement"  # sqlglot reads any two words as a column and its alias
        return "SQL that does more than read data" if self.reads_only else None
