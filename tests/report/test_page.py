"""The lines of a run that are the same on the console and in its reports."""

from __future__ import annotations

from evalflow.report.page import answer_lines
from tests.manifests import manifest_of


def test_a_line_about_cut_off_answers_says_how_to_list_those_of_its_run() -> None:
    manifest = manifest_of(answer_faults={"cut_off": {"n": 1, "of": 3, "cases": ["b"]}})
    assert answer_lines(manifest)[0].endswith("list them: python -m evalflow cases --cut-off")
    line = answer_lines(manifest, "outputs/sweeps/s/0_target.model=m n")[0]
    assert line.endswith("list them: python -m evalflow cases 'outputs/sweeps/s/0_target.model=m n' --cut-off")
