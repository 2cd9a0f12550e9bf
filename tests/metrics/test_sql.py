"""The kind `sql`, with real databases: SQLite, and DuckDB where it is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from evalflow.errors import UserError
from evalflow.metrics.kinds import sql
from evalflow.metrics.kinds.sql import is_ordered
from evalflow.metrics.result_sets import ResultSet, difference

SETUP = "CREATE TABLE staff (id INTEGER, name TEXT, pay DOUBLE);"
ROWS = "INSERT INTO staff VALUES (1, 'Ada', 10.5), (2, 'Bo', 20), (3, 'Cy', NULL);"
REFERENCE = "SELECT name FROM staff WHERE pay > 5"
ENDLESS = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r)"
DIALECTS = (
    "sqlite",
    pytest.param("duckdb", marks=pytest.mark.skipif(find_spec("duckdb") is None, reason="duckdb is not installed")),
)

pytestmark = pytest.mark.slow


@pytest.fixture(params=DIALECTS)
def score(request: Any, bench: Any) -> Any:
    """Score an answer; `dialect` is the one at hand."""

    def run(answer: str, reference: str = REFERENCE, setup: str = SETUP + ROWS, **changes: Any) -> Any:
        case = bench.case(reference=reference, vars={"setup": setup, "fillings": changes.pop("of_case", None)})
        metric = bench.shipped("sql_equivalence", **{"dialect": request.param, **changes})
        return bench.score(metric, case=case, answer=bench.answer(answer=answer))

    run.dialect = request.param  # type: ignore[attr-defined]
    return run


@pytest.mark.parametrize(
    "answer",
    [
        "```sql\nSELECT name AS who FROM staff WHERE NOT pay <= 5;\n```",
        "So:\n\n```\nselect name from staff where pay > 5 -- in any order\norder by pay desc\n```\nDone.",
        "VALUES ('Bo'), ('Ada')",
    ],
)
def test_queries_with_the_same_rows_are_equal_however_they_are_written(score: Any, answer: str) -> None:
    outcome = score(answer)
    assert (outcome.status, outcome.score, outcome.reason) == ("scored", 1.0, "the same 2 rows")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("SELECT name FROM staff", "1 row extra: ('Cy')"),
        ("SELECT name FROM staff WHERE pay > 15", "1 row missing: ('Ada')"),
        ("SELECT name FROM staff WHERE pay > 5 UNION ALL SELECT 'Bo'", "1 row extra: ('Bo')"),
        ("SELECT id, name FROM staff", "2 columns instead of 1: id, name"),
        ("SELECT pay FROM staff", "2 rows missing: ('Ada'), ('Bo'); 3 rows extra: "),
    ],
)
def test_the_reason_says_which_rows_differ(score: Any, answer: str, reason: str) -> None:
    outcome = score(answer)
    assert (outcome.status, outcome.score) == ("scored", 0.0)
    assert outcome.reason.startswith(reason)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("SELEC name", "syntax error"),
        ("SELECT wages FROM staff", "wages"),
        ("", "it is not a query that gives rows"),
        ("SELECT 1; SELECT 2", "it is more than one statement"),
        ("DELETE FROM staff", "it does what is not allowed"),
        ("INSERT INTO staff VALUES (4, 'Di', 1) RETURNING name", "it does what is not allowed"),
        ("DROP TABLE staff", "it does what is not allowed"),
        ("ATTACH 'other.db' AS other", "it does what is not allowed"),
        ("PRAGMA table_info(staff)", "it does what is not allowed"),
        (f"{ENDLESS} SELECT COUNT(*) FROM r", "it takes more than 0.5 s"),
        (f"{ENDLESS} SELECT n FROM r", "it gives more than 100 rows"),
        ("SELECT a.name FROM staff a, staff b, staff c, staff d, staff e", "it gives more than 100 rows"),
        ("```sql\nSELECT 1\n```\nor\n```sql\nSELECT 2\n```", "there are 2 fenced queries; expected one"),
        ("x" * 20_001, "it has 20,001 characters"),
    ],
)
def test_an_answer_that_cannot_be_run_scores_0_with_the_reason(score: Any, answer: str, reason: str) -> None:
    outcome = score(answer, timeout_s=0.5, max_rows=100)
    assert (outcome.status, outcome.score) == ("scored", 0.0)
    assert reason in outcome.reason
    assert outcome.reason.startswith("the answer cannot be run: ") or outcome.reason.startswith("answer: ")


def test_a_result_of_10_mb_is_the_answers_fault(score: Any) -> None:
    large = "hex(zeroblob(5000000))" if score.dialect == "sqlite" else "repeat('x', 10000000)"
    outcome = score(f"SELECT {large}")
    assert outcome.reason == "the answer cannot be run: its rows are larger than 600,000 characters"


def test_a_query_that_needs_too_much_memory_is_the_answers_fault(score: Any) -> None:
    large = "hex(zeroblob(300000000))" if score.dialect == "sqlite" else "list(range) FROM range(1000000000)"
    outcome = score(f"SELECT {large}")
    assert outcome.reason == "the answer cannot be run: it needs more than 256 MB of memory"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"reference": "SELECT nam FROM staff"}, "the reference cannot be run: "),
        ({"reference": "DELETE FROM staff"}, "the reference cannot be run: it does what is not allowed"),
        ({"reference": f"{ENDLESS} SELECT COUNT(*) FROM r", "timeout_s": 0.3}, "the reference cannot be run: it takes"),
        ({"setup": "CREATE TABL staff"}, "the set-up cannot be run: "),
        ({"setup": "ATTACH 'other.db' AS other;"}, "the set-up cannot be run: it does what is not allowed"),
        ({"of_case": [3]}, "vars.fillings: a number (3) is not SQL"),
        ({"of_case": ["SELECT 1;"] * 21}, "vars.fillings: there are 21 fillings; the most is 20"),
        ({"of_case": [ROWS, "INSERT INTO nowhere VALUES (1);"], "setup": SETUP}, "database 2 of 2: the set-up cannot"),
    ],
)
def test_a_set_up_or_a_reference_that_cannot_be_run_is_an_error(score: Any, changes: Any, error: str) -> None:
    outcome = score(REFERENCE, **changes)
    assert (outcome.status, outcome.score, outcome.error_type) == ("error", None, "data")
    assert outcome.error.startswith(error)


def test_a_second_filling_tells_apart_what_agrees_on_the_first(score: Any) -> None:
    answer = "SELECT name FROM staff WHERE pay >= 10"
    fillings = [ROWS, "INSERT INTO staff VALUES (1, 'Ada', 7);"]
    assert score(answer, setup=SETUP, of_case=fillings[:1]).score == 1.0
    outcome = score(answer, setup=SETUP, of_case=fillings)
    assert (outcome.score, outcome.reason) == (0.0, "database 2 of 2: 1 row missing: ('Ada')")
    both = score(REFERENCE, setup=SETUP, fillings=fillings[:1], of_case=fillings[1])
    assert both.reason == "the same 3 rows in 2 databases"


def test_the_order_counts_where_the_reference_has_one(score: Any) -> None:
    ordered = f"{REFERENCE} ORDER BY pay"
    outcome = score(f"{REFERENCE} ORDER BY pay DESC", ordered)
    assert (outcome.score, outcome.reason) == (
        0.0,
        "the same rows in another order: row 1 is ('Bo') instead of ('Ada')",
    )
    assert score(f"{REFERENCE} ORDER BY pay DESC", ordered, order="never").score == 1.0
    assert score(f"{REFERENCE} ORDER BY pay DESC", f"SELECT name FROM ({ordered}) s").score == 1.0
    assert score(f"{REFERENCE} ORDER BY pay DESC", order="always").score == 0.0
    assert score(ordered, ordered).reason == "the same 2 rows in the same order"


def test_columns_are_matched_by_place_or_by_name(score: Any) -> None:
    swapped = ("SELECT pay, name FROM staff", "SELECT name, pay FROM staff")
    assert score(*swapped).score == 0.0
    assert score(*swapped, columns="name").score == 1.0
    outcome = score("SELECT name, id FROM staff", "SELECT name, pay FROM staff", columns="name")
    assert outcome.reason == "columns name, id instead of name, pay"


def test_no_rows_at_all_prove_nothing(score: Any) -> None:
    outcome = score("SELECT 1 WHERE 1 = 0", "SELECT name FROM staff WHERE pay > 99")
    assert (outcome.status, outcome.score) == ("undefined", None)
    assert "add rows that the reference finds" in outcome.reason
    assert score("SELECT 1", " ").reason == "nothing to compare with: the reference is blank"


@pytest.mark.parametrize(
    ("dialect", "query"),
    [
        ("sqlite", "SELECT value FROM json_each('[1, 2]')"),
        ("sqlite", "SELECT atom FROM json_tree('[1, 2]')"),
        ("duckdb", "SELECT TIMESTAMPTZ '2020-01-01 00:00:00+02'"),
        ("duckdb", "SELECT make_timestamptz(2020, 1, 1, 0, 0, 0), TIMETZ '12:00:00+05:30'"),
        ("duckdb", "SELECT TIMESTAMP 'infinity', DATE '12000-01-01', INTERVAL 3 DAY"),
        ("duckdb", "SELECT {'a': [1]}, MAP {[1]: 2}, '101'::BIT, uuid() IS NULL, 3::BIGNUM, '\\x41'::BLOB, 1e400"),
    ],
)
def test_results_of_any_type_are_compared(bench: Any, dialect: str, query: str) -> None:
    pytest.importorskip("duckdb" if dialect == "duckdb" else "sqlite3")
    case = bench.case(reference=query, vars={"setup": SETUP})
    outcome = bench.score(
        bench.shipped("sql_equivalence", dialect=dialect), case=case, answer=bench.answer(answer=query)
    )
    assert (outcome.status, outcome.score, outcome.error) == ("scored", 1.0, None)


@pytest.mark.parametrize("query", ["SELECT 'é\ud800'", "SELECT INTERVAL '99999999 years'", "SELECT ?"])
def test_an_answer_that_no_database_takes_scores_0(score: Any, query: str) -> None:
    outcome = score(query)
    assert (outcome.status, outcome.score) == ("scored", 0.0)


def test_sqlite_cannot_load_extensions_nor_write_files(bench: Any, tmp_path: Path) -> None:
    case = bench.case(reference=REFERENCE, vars={"setup": SETUP + ROWS})
    for query in ("SELECT load_extension('x')", f"VACUUM INTO '{tmp_path}/copy.db'"):
        outcome = bench.score(bench.shipped("sql_equivalence"), case=case, answer=bench.answer(answer=query))
        assert "it does what is not allowed" in outcome.reason
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(find_spec("duckdb") is None, reason="duckdb is not installed")
def test_duckdb_cannot_read_files_nor_change_its_settings(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    for query in (
        f"SELECT * FROM read_csv('{tmp_path}/secret.csv')",
        f"COPY staff TO '{tmp_path}/copy.csv'",
        "SET memory_limit = '9GB'",
        "INSTALL httpfs",
    ):
        for setup, answer in ((SETUP + ROWS, query), (f"{SETUP}{ROWS}{query};", REFERENCE)):
            case = bench.case(reference=REFERENCE, vars={"setup": setup})
            metric = bench.shipped("sql_equivalence", dialect="duckdb")
            outcome = bench.score(metric, case=case, answer=bench.answer(answer=answer))
            assert outcome.score in (0.0, None), query
            assert (outcome.status == "error") == (answer == REFERENCE), query
    assert [file.name for file in tmp_path.iterdir()] == ["secret.csv"]


def test_scripts_may_be_files_below_the_working_directory(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "staff.sql").write_text(SETUP)
    (tmp_path / "data" / "rows.sql").write_text(ROWS)
    values = {"setup": "staff.sql", "fillings": ["rows.sql"], "needs": ["answer", "reference"], "setup_field": None}
    metric = bench.shipped("sql_equivalence", **values)
    assert bench.score(metric, case=bench.case(reference=REFERENCE), answer=bench.answer(answer=REFERENCE)).score == 1.0
    before = metric.files_sha256
    (tmp_path / "data" / "rows.sql").write_text(f"{ROWS};")
    assert before != bench.shipped("sql_equivalence", **values).files_sha256 is not None
    assert bench.shipped("sql_equivalence", **{**values, "setup": SETUP, "fillings": [ROWS]}).files_sha256 is None
    with pytest.raises(UserError, match=r"no such file: other\.sql"):
        bench.shipped("sql_equivalence", **{**values, "setup": "other.sql"})
    with pytest.raises(UserError, match="is not below the working directory"):
        bench.shipped("sql_equivalence", **{**values, "setup": "../staff.sql"})


def test_what_makes_the_tables_must_be_named_and_needed(bench: Any) -> None:
    with pytest.raises(ValidationError, match="the tables are missing"):
        bench.shipped("sql_equivalence", setup_field=None)
    with pytest.raises(UserError, match=r"`setup_field` is 'vars\.setup', which `needs` does not declare"):
        bench.shipped("sql_equivalence", needs=["answer", "reference"])
    assert bench.score(bench.shipped("sql_equivalence")).status == "skipped"


def test_without_duckdb_its_dialect_says_how_to_install_it(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalflow.metrics.kinds.sql.find_spec", lambda _: None)
    with pytest.raises(UserError, match="needs the package duckdb, which is not installed") as refused:
        bench.shipped("sql_equivalence", dialect="duckdb")
    assert "pip install" in refused.value.problems[0].hint


@pytest.mark.parametrize(
    ("query", "ordered"),
    [
        ("SELECT a FROM t ORDER BY a", True),
        ("select a from t\norder\n  by a limit 3", True),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a) s", False),
        ("SELECT a, RANK() OVER (ORDER BY b) FROM t", False),
        ("WITH x AS (SELECT a FROM t ORDER BY a LIMIT 3) SELECT a FROM x", False),
        ("WITH x AS (SELECT a FROM t) SELECT a FROM x ORDER BY 1", True),
        ("SELECT 'order by' FROM t -- order by a", False),
        ('SELECT ")" FROM (SELECT 1 /* order by ( */) ORDER BY 1', True),
        ("SELECT [order by] FROM t", False),
    ],
)
def test_only_the_outermost_order_by_counts(query: str, ordered: bool) -> None:
    assert is_ordered(query) == ordered


@pytest.mark.parametrize(
    ("expected", "actual", "differs"),
    [
        ([(1, 0.1 + 0.2)], [(1, 0.3)], False),
        ([(1, 2.0)], [(1, 2)], False),
        ([(10**15,)], [(10**15 + 1,)], True),
        ([(1.0,)], [(1.1,)], True),
        ([(float("nan"),)], [(float("nan"),)], False),
        ([("1",)], [(1,)], True),
        ([(None,)], [("",)], True),
        ([(1.0, "a"), (1.0000001, "b")], [(1.0000001, "a"), (1.0, "b")], False),
        ([(1.0,), (1.0,)], [(1.0000001,)], True),
        ([(i / 3,) for i in range(2000)], [(i / 3 + 1e-9,) for i in reversed(range(2000))], False),
    ],
)
def test_numbers_may_differ_by_the_tolerance_and_nothing_else_may(expected: Any, actual: Any, differs: bool) -> None:
    assert (difference(expected, actual, ordered=False, tolerance=1e-6) is not None) == differs


def test_of_many_rows_a_few_are_shown_and_long_cells_are_cut() -> None:
    told = difference([], [(i, "x" * 100) for i in range(5)], ordered=False, tolerance=0)
    assert told is not None
    assert told.startswith("5 rows extra: (0, 'xxxxx")
    assert told.endswith("…) and 2 more")


def test_columns_of_one_name_are_each_taken_once() -> None:
    twice = ResultSet(["a", "A", "b"], [(1, 2, 3)])
    assert twice.arranged_as(["B", "a", "a"]) == ResultSet(["B", "a", "a"], [(3, 1, 2)])
    assert twice.arranged_as(["a", "b"]) is None


_MADE = "CREATE TABLE t (a integer, b varchar(10)); INSERT INTO t (a, b) VALUES (1, 'x'), (2, upper('y'));"
_REFUSED = {
    "sqlite": [
        "SELECT fts3_tokenizer('simple')",
        "SELECT sqlite_version()",
        "SELECT * FROM pragma_function_list",
        "SELECT * FROM pragma_compile_options",
    ],
    "duckdb": [
        "SELECT * FROM arrow_scan(1::pointer, 2::pointer, 3::pointer)",
        "SELECT 'ééé', * FROM system.main.\"Arrow_Scan\" /* x */ (1, 2, 3)",
        "SELECT * FROM arrow_scan--x\n(1, 2, 3)",
        "SELECT * FROM query('SELECT 1')",
        "SELECT t.sleep_ms() FROM t",
        "SELECT current_setting('threads')",
        "SELECT * FROM duckdb_settings()",
    ],
}
_REFUSED_IN_SETUP = {
    "sqlite": [
        "CREATE VIRTUAL TABLE f USING fts3(a)",
        "INSERT INTO t SELECT fts3_tokenizer('simple'), 1",
        "CREATE TABLE z AS SELECT * FROM pragma_function_list",
        "ATTACH 'x' AS x",
    ],
    "duckdb": [
        "CREATE VIEW z AS SELECT * FROM arrow_scan(1, 2, 3)",
        "CREATE MACRO z() AS TABLE SELECT * FROM query('SELECT 1')",
        "PRAGMA version",
        "LOAD json",
        "CALL pragma_version()",
        "PREPARE p AS SELECT 1",
    ],
}
_ALLOWED = {
    "sqlite": [
        "SELECT count(*), b LIKE 'X%', b -> '$' FROM t WHERE 0 GROUP BY b",
        "SELECT row_number() OVER (ORDER BY a), coalesce(b, '') FROM t",
        "SELECT value FROM json_each('[1]')",
    ],
    "duckdb": [
        "SELECT count(*), left(b, 1), t.b.upper() FROM t GROUP BY b",
        "SELECT extract(year FROM date '2020-01-01'), if(a IN (1), 1, 2) FROM t",
        "WITH x(n) AS (SELECT * FROM range(3)) SELECT sum(n) FILTER (WHERE n > 1) FROM x",
    ],
}


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_queries_call_only_functions_that_are_listed(dialect: str) -> None:
    if dialect == "duckdb":
        pytest.importorskip("duckdb", reason="the extra `sql` is not installed")
    work = {"sqlite": sql._SQLITE, "duckdb": sql._DUCKDB}[dialect]

    def run(setup: list[str], queries: list[str]) -> Any:
        limits = {"seconds": 10, "max_rows": 100, "memory": 200 * 1024**2}
        return work.call({"dialect": dialect, "setup": setup, "queries": queries, **limits}, 60, "it")

    for result in run([_MADE], _REFUSED[dialect])["results"]:
        assert "is not allowed" in result["fault"]
    for script in _REFUSED_IN_SETUP[dialect]:
        assert "is not allowed" in run([_MADE, script], [])["fault"], script
    for query, result in zip(_ALLOWED[dialect], run([_MADE], _ALLOWED[dialect])["results"], strict=True):
        assert "rows" in result, (query, result)


def test_a_set_up_may_change_its_tables() -> None:
    script = "ALTER TABLE t RENAME TO u; ALTER TABLE u RENAME COLUMN b TO c; ALTER TABLE u DROP COLUMN c;"
    payload = {"dialect": "sqlite", "setup": [_MADE, script], "queries": ["SELECT * FROM u"]}
    result = sql._SQLITE.call({**payload, "seconds": 10, "max_rows": 9, "memory": 10**8}, 60, "it")
    assert result["results"][0]["rows"] == [[1], [2]]
