"""An operation on SQL in a case field: its syntax, without a database."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Literal

from pydantic import model_validator

from evalflow.config.schema import with_examples
from evalflow.extras import install_command
from evalflow.jsonvalues import written
from evalflow.metrics.operations import BaseOperation, RuleFinding
from evalflow.metrics.reasons import one_line

Dialect = Literal[
    "bigquery", "clickhouse", "databricks", "duckdb", "mysql", "oracle", "postgres", "redshift", "snowflake", "spark",
    "sqlite", "trino", "tsql",
]  # fmt: skip
LONGEST = 50_000
"""Maximum characters of a statement."""


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
