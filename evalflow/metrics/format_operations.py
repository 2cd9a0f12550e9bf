"""Operations on the form of a text in a case field: XML, HTML and SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from html.parser import HTMLParser
from importlib.util import find_spec
from typing import Any, Literal

from pydantic import Field, model_validator

from evalflow.apart import within
from evalflow.config.schema import Word, with_examples
from evalflow.extras import install_command
from evalflow.jsonvalues import written
from evalflow.metrics.operations import BaseOperation, QuickOperation, RuleFinding
from evalflow.metrics.reasons import one_line
from evalflow.segments import listed

_PATIENCE_S = 2.0
_VOID = listed("area base br col embed hr img input link meta source track wbr")
_END_IS_OPTIONAL = listed("body caption colgroup dd dt head html li optgroup option p rp rt tbody td tfoot th thead tr")
_ELEMENTS = (
    _VOID
    | _END_IS_OPTIONAL
    | listed(
        """a abbr address article aside audio b bdi bdo blockquote button canvas cite code data datalist del details dfn
    dialog div dl em fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup i iframe ins kbd label
    legend main map mark math menu meter nav noscript object ol output picture pre progress q ruby s samp script search
    section select slot small span strong style sub summary sup svg table template textarea time title u ul var
    video"""
    )
)
"""Those of the HTML Standard; custom elements have a hyphen in their names."""
_OTHER_VOCABULARY = frozenset({"svg", "math"})
_UNFINISHED = re.compile(r"<[a-zA-Z/!][^>]*\Z")
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
    """Checks that a text is in a markup language, with the elements that it must have."""

    op: str
    elements: list[Word] = Field(default_factory=list[Word])

    def test(self, name: str, value: Any, fields: Mapping[str, Any]) -> RuleFinding:
        language = self.op.upper()
        try:
            missing = self._missing(written(value).strip())
        except _MarkupError as error:
            return RuleFinding(passed=False, reason=f"the {name} is no {language}: {error}")
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
        elements: Elements that it must have, each as the path from the root: answer.source.
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

        def refuse(*_: Any) -> None:
            raise _MarkupError("it declares entities, which are not read")

        parser.StartElementHandler = begin
        parser.EndElementHandler = lambda _: here.pop()
        parser.EntityDeclHandler = refuse
        try:
            parser.Parse(text.encode("utf-8", "replace"), True)
        except expat.ExpatError as error:
            raise _MarkupError(str(error)) from None
        return list(missing.values())


class HtmlOperation(MarkupOperation):
    """Checks that a text is HTML, a document or a part of one: each element is known and closed, no text outside.

    End tags may be left out where HTML allows it. Attributes, and which element may stand in which, are not checked.

    Attributes:
        elements: Elements that it must have, by name.
    """

    model_config = with_examples({"op": "html", "elements": ["td"]})
    op: Literal["html"]  # pyright: ignore[reportIncompatibleVariableOverride]

    def _missing(self, text: str) -> Sequence[str]:
        found = within(_PATIENCE_S, "reading the HTML", partial(_elements, text))
        return [element for element in self.elements if element.lower() not in found]


def _elements(text: str) -> set[str]:
    """The names of the elements in a text; _MarkupError if their tags do not match."""
    if _UNFINISHED.search(text[text.rfind("<") :]):
        raise _MarkupError("its last tag has no end")
    reader = _TagReader()
    reader.feed(text)
    reader.close()
    reader.expect_closed()
    return reader.found


class _TagReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self._expect_known(tag)
        self.found.add(tag)
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        if tag not in _VOID and not self._is_in_other_vocabulary(tag):
            raise self._fault(f"<{one_line(tag, 40)}/> does not close the element")
        self.found.add(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open[-1] != tag and self._open[-1] in _END_IS_OPTIONAL:
            self._open.pop()
        if not self._open or self._open.pop() != tag:
            raise self._fault(f"</{one_line(tag, 40)}> closes no element")

    def handle_data(self, data: str) -> None:
        if not self._open and data.strip():
            raise self._fault(f"text outside of all elements: {one_line(data, 40)}")

    def expect_closed(self) -> None:
        if unclosed := next((tag for tag in self._open if tag not in _END_IS_OPTIONAL), None):
            raise _MarkupError(f"<{unclosed}> is not closed")
        if not self.found:
            raise _MarkupError("there is no element")

    def _expect_known(self, tag: str) -> None:
        if tag not in _ELEMENTS and "-" not in tag and not self._is_in_other_vocabulary(tag):
            raise self._fault(f"HTML has no element <{one_line(tag, 40)}>")

    def _is_in_other_vocabulary(self, tag: str) -> bool:
        return not _OTHER_VOCABULARY.isdisjoint([tag, *self._open])

    def _fault(self, what: str) -> _MarkupError:
        line, column = self.getpos()
        return _MarkupError(f"line {line}, column {column + 1}: {what}")


class SqlOperation(BaseOperation):
    """Checks that a text is one SQL statement. Only its syntax is read, by sqlglot; tables and columns are not known.

    Attributes:
        dialect: The database whose syntax it must have; null: what is common to most.
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

    def test(self, name: str, value: Any, fields: Mapping[str, Any]) -> RuleFinding:
        fault = self._fault(written(value))
        return RuleFinding(fault is None, f"the {name} is {fault or 'one SQL statement'}")

    def _fault(self, text: str) -> str | None:
        """Why a text is not one statement as wanted."""
        import sqlglot
        from sqlglot import exp
        from sqlglot.errors import ParseError, SqlglotError

        if len(text) > LONGEST:
            return f"too long to be read as SQL: {len(text):,} characters, of {LONGEST:,} at most"
        try:
            found = [one for one in sqlglot.parse(text, dialect=self.dialect) if one is not None]
        except ParseError as error:
            fault = error.errors[0]
            return f"no SQL: line {fault['line']}, column {fault['col']}: {one_line(fault['description'], 100)}"
        except SqlglotError:  # such as a quotation mark without its other half
            return "no SQL: it cannot be split into words"
        except RecursionError:
            return "nested too deeply to be read as SQL"
        if len(found) != 1:
            return f"{len(found)} SQL statements" if found else "no SQL: there is no statement"
        if isinstance(found[0], exp.Query):
            return None
        if not isinstance(
            found[0], exp.DDL | exp.Update | exp.Delete | exp.Merge | exp.Drop | exp.Alter | exp.TruncateTable
        ):
            return "no SQL: it is no statement"  # sqlglot takes any two words for a column and its alias
        return "SQL that does more than read" if self.reads_only else None
