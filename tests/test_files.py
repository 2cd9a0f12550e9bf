from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from evalflow.paths import replacing, write_atomically
from evalflow.summary.summarise import write_scores


def _stopped(path: Path) -> None:
    with replacing(path) as file:
        file.write("half")
        file.flush()
        assert path.read_text() == "old"
        raise KeyboardInterrupt


def test_a_file_is_the_old_one_until_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_atomically(path, "old")
    with pytest.raises(KeyboardInterrupt):
        _stopped(path)
    assert [one.name for one in tmp_path.iterdir()] == ["a.txt"]
    write_atomically(path, "neu \ud83d 😀")
    assert path.read_text(encoding="utf-8") == "neu ? 😀"


def test_scores_that_cannot_be_written_leave_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    scores = pl.LazyFrame({"a": ["1", "2"]})
    write_scores(scores, path)
    with pytest.raises(pl.exceptions.PolarsError):
        write_scores(scores.with_columns(pl.col("a").cast(pl.Int64) + pl.col("b")), path)
    with pytest.raises(pl.exceptions.PolarsError):
        write_scores(pl.concat([scores, pl.LazyFrame({"a": ["x"]})]).select(pl.col("a").str.to_integer()), path)
    assert pl.read_parquet(path).height == 2
    assert [one.name for one in tmp_path.iterdir()] == ["scores.parquet"]
