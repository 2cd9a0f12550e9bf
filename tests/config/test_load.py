"""The ways a Hydra configuration goes wrong in silence, each met with a message or made impossible."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evalflow.app.core.assemble import composed_settings, settings_of
from evalflow.cli import run_command
from evalflow.config.load import compose
from evalflow.errors import UserError, quoted
from tests.cli.conftest import Program

pytestmark = pytest.mark.slow

Folder = Callable[[dict[str, str]], Path]

METRIC = "kind: recorded\nfield: vars.mark\nscale: {type: boolean}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Writes files of a config folder."""

    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / "own" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path / "own"

    return write


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12))
"""Twelve lines that stand for 200,000,000,000 values."""


def complaint(*overrides: str, config_dir: Path | None = None) -> str:
    """What the user is told about a command line."""
    with pytest.raises(UserError) as caught:
        composed_settings(overrides, config_dir)
    return str(caught.value)


def test_two_files_with_one_package_line_do_not_merge(folder: Folder) -> None:
    own = folder({f"metric/{name}.yaml": f"# @package metric.one\n{METRIC}" for name in ("one", "two")})
    text = complaint("dataset=rag", "metric=[one,two]", config_dir=own)
    assert "two.yaml" in text
    assert "paste: # @package metric.two" in text


@pytest.mark.parametrize("first", ["# a comment\n", "\n# a comment\n", ""])
def test_a_lost_package_line_is_an_error_with_the_line_to_paste(folder: Folder, first: str) -> None:
    header = f"{first}# @package metric.mine\n" if first else ""
    own = folder({"metric/mine.yaml": f"{header}{METRIC}"})
    assert "paste: # @package metric.mine" in complaint("dataset=rag", "metric=mine", config_dir=own)


def test_a_byte_order_mark_before_the_package_line_is_named(folder: Folder) -> None:
    own = folder({"metric/mine.yaml": f"\ufeff# @package metric.mine\n{METRIC}"})
    text = complaint("dataset=rag", "metric=mine", config_dir=own)
    assert "mine.yaml: the file begins with a byte order mark" in text
    assert "paste" not in text


@pytest.mark.parametrize("override", ["metric=[]", "metric=null"])
def test_an_empty_selection_is_refused(override: str) -> None:
    assert "metric" in complaint("dataset=rag", override)


def test_neither_dataset_nor_metric_shows_what_to_try() -> None:
    text = complaint()
    assert text.count("python -m evalflow") >= 3


@pytest.mark.parametrize("word", ["yes", "no", "on", "off"])
def test_an_unquoted_yes_or_no_is_no_label(folder: Folder, word: str) -> None:
    own = folder(
        {
            "metric/mine.yaml": f"# @package metric.mine\nkind: rubric\nneeds: [answer]\n"
            f"scale: {{type: label, values: {{{word}: 1, 'maybe': 0}}}}\n"
        }
    )
    text = complaint("dataset=rag", "metric=mine", "judge=openai", "judge.model=m", config_dir=own)
    assert "quote" in text


def test_an_unknown_key_names_file_key_and_nearest_name(folder: Folder) -> None:
    own = folder({"metric/mine.yaml": f"# @package metric.mine\n{METRIC}treshold: 0.5\n"})
    text = complaint("dataset=rag", "metric=mine", config_dir=own)
    assert str(own / "metric" / "mine.yaml") in text
    assert "metric.mine.treshold" in text
    assert "did you mean 'threshold'" in text


def test_a_key_that_its_file_leaves_out_takes_a_plus_and_the_message_prints_it(folder: Folder) -> None:
    own = folder({"metric/mine.yaml": f"# @package metric.mine\n{METRIC}"})
    text = complaint("dataset=rag", "metric=mine", "metric.mine.threshold=0.5", config_dir=own)
    assert "+metric.mine.threshold=0.5" in text
    settings = settings_of(compose(["dataset=rag", "metric=mine", "+metric.mine.threshold=0.5"], own))
    assert settings.run.metric["mine"].threshold == 0.5


def test_a_plus_does_not_smuggle_in_an_unknown_key(folder: Folder) -> None:
    own = folder({"metric/mine.yaml": f"# @package metric.mine\n{METRIC}"})
    text = complaint("dataset=rag", "metric=mine", "+metric.mine.treshold=3", config_dir=own)
    assert "command line" in text
    assert "threshold" in text


def test_all_faults_are_told_at_once(folder: Folder) -> None:
    own = folder({"metric/mine.yaml": f"# @package metric.mine\n{METRIC}version: zero\nneeds: nothing\n"})
    text = complaint("dataset=rag", "metric=mine", "seed=x", "max_error_rate=2", config_dir=own)
    for key in ("metric.mine.version", "metric.mine.needs", "seed", "max_error_rate"):
        assert key in text


def test_a_value_of_an_unknown_key_is_not_repeated(folder: Folder) -> None:
    text = complaint("dataset=rag", "metric=exact_match", "judge=openai", "judge.model=m", "+judge.api_key=sk-secret")
    assert "judge.api_key" in text
    assert "sk-secret" not in text


def test_broken_yaml_says_where(folder: Folder) -> None:
    own = folder({"metric/mine.yaml": "# @package metric.mine\nkind: recorded\nfield: {{ x }\n"})
    text = complaint("dataset=rag", "metric=mine", config_dir=own)
    assert re.search(r"mine\.yaml:[34]: ", text)


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("defaults:\n  - override /dataset: rag\n - x\n", "odd.yaml:3: this is not valid", "in the same column"),
        ("defaults:\n\t- override /dataset: rag\n", "odd.yaml:2: this is not valid", "not with tabs"),
        (
            "# @package _global_\ndefaults:\n  - override /datset: rag\n",
            "odd.yaml: defaults: there is no group 'datset'",
            "'dataset'?",
        ),
    ],
    ids=["indented", "tab", "group"],
)
def test_a_mistake_in_a_file_is_placed_and_explained(text: str, what: str, hint: str, folder: Folder) -> None:
    own = folder({"experiment/odd.yaml": text})
    said = complaint("experiment=odd", "metric=exact_match", config_dir=own)
    assert what in said
    assert hint in said


@pytest.mark.parametrize("word", ["+experiment=rag_v2", "++dataset=rag"])
def test_a_group_is_chosen_without_a_plus(word: str) -> None:
    said = complaint(word, *(["dataset=rag"] if "dataset" not in word else []))
    assert f"{word}: a group is chosen without a +" in said
    assert f"write {quoted(word.lstrip('+'))}" in said


def test_a_file_that_cannot_be_read_or_lacks_what_it_starts_from_is_named(folder: Folder) -> None:
    own = folder(
        {
            "judge/lost.yaml": "defaults: [opnai, _self_]\n",
            "judge/circle.yaml": "defaults: [circle, _self_]\n",
            "dataset/odd.yaml": "",
            "experiment/local.yaml": "dataset: rag\n",
        }
    )
    (own / "dataset" / "odd.yaml").write_bytes(b"# @package dataset.odd\npath: \xff\n")
    chosen = ("dataset=rag", "metric=faithfulness")
    text = complaint(*chosen, "judge=lost", config_dir=own)
    assert f"{own / 'judge' / 'lost.yaml'}: defaults: it extends judge 'opnai', which does not exist" in text
    assert "did you mean 'openai'?" in text
    assert "starts from itself" in complaint(*chosen, "judge=circle", config_dir=own)
    assert f"{own / 'dataset' / 'odd.yaml'}: the file is not UTF-8" in complaint("dataset=odd", config_dir=own)
    assert "paste: # @package _global_" in complaint("experiment=local", config_dir=own)


def test_a_missing_value_names_its_key() -> None:
    assert "judge.model" in complaint("dataset=rag", "metric=faithfulness", "judge=vllm")
    azure = complaint("dataset=rag", "metric=faithfulness", "judge=azure")
    assert "judge.base_url has no value" in azure  # not that of OpenAI, which would be sent Azure's key
    assert "judge.model has no value" in azure


def test_all_unknown_choices_are_told_at_once() -> None:
    text = complaint("dataset=rga", "metric=[faithfullness,relevanc]", "judge=opnai")
    for nearest in ("rag", "faithfulness", "relevance", "openai"):
        assert f"did you mean {nearest!r}?" in text
    assert "evalflow list metric shows all" in complaint("dataset=rag", "metric=zzz")


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("judge=[vllm,openai]", "judge is one name, not a list\n  hint: judge=NAME; one run for each: -m "),
        ("metric=bias,relevance", "'metric=[bias,relevance]'; one run for each: -m metric=bias,relevance"),
        ("judge.name=a,b", "judge.name=a,b has several values"),
        ("=x", "cannot read '=x'\n  hint: write KEY=VALUE"),
    ],
)
def test_what_hydra_would_say_in_its_own_words_is_said_in_ours(override: str, told: str) -> None:
    assert told in complaint("dataset=rag", "metric=faithfulness", override)


def test_a_live_target_that_would_never_be_asked_is_an_error() -> None:
    text = complaint("dataset=rag", "metric=exact_match", "target=openai", "target.model=m")
    assert "generate=true" in text


def test_new_answers_from_recorded_ones_are_an_error() -> None:
    assert "recorded" in complaint("dataset=rag", "metric=exact_match", "generate=true")


def test_a_metric_overrides_part_of_the_judge(folder: Folder) -> None:
    own = folder(
        {
            "metric/mine.yaml": "# @package metric.mine\nkind: rubric\nneeds: [answer]\n"
            "scale: {type: boolean}\njudge: {temperature: 0.7}\n"
        }
    )
    overrides = ["dataset=rag", "metric=mine", "judge=openai", "judge.model=m", "judge.max_tokens=99"]
    judge = settings_of(compose(overrides, own)).judges["mine"]
    assert judge.model_dump()["temperature"] == 0.7
    assert judge.model_dump()["max_tokens"] == 99


def test_the_search_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Folder) -> None:
    """--config-dir, then the working directory's conf/, then the packaged one."""
    work = tmp_path / "work"
    local = work / "conf" / "metric" / "exact_match.yaml"
    local.parent.mkdir(parents=True)
    local.write_text(f"# @package metric.exact_match\ndescription: local\n{METRIC}", encoding="utf-8")
    monkeypatch.chdir(work)
    chosen = ["dataset=rag", "metric=exact_match"]
    assert settings_of(compose(chosen)).run.metric["exact_match"].description == "local"

    own = folder({"metric/exact_match.yaml": f"# @package metric.exact_match\ndescription: own\n{METRIC}"})
    composed = compose(chosen, own)
    assert settings_of(composed).run.metric["exact_match"].description == "own"
    assert composed.sources["metric.exact_match"] == own / "metric" / "exact_match.yaml"
    assert composed.shadowed == (("metric.exact_match", own / "metric" / "exact_match.yaml"),)

    monkeypatch.chdir(tmp_path)
    assert settings_of(compose(chosen)).run.metric["exact_match"].description not in ("local", "own")


def test_a_foreign_conf_folder_is_not_taken_for_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "config.yaml").write_text("seed: 77\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert compose(["dataset=rag", "metric=exact_match"]).values["seed"] == 0


def test_the_primary_config_always_comes_from_the_package(folder: Folder) -> None:
    own = folder({"config.yaml": "seed: 77\n", "metric/mine.yaml": f"# @package metric.mine\n{METRIC}"})
    assert compose(["dataset=rag", "metric=mine"], own).values["seed"] == 0


def test_own_defaults_live_in_local(folder: Folder) -> None:
    own = folder({"local/default.yaml": "# @package _global_\nseed: 77\n", "metric/mine.yaml": METRIC})
    assert compose(["dataset=rag", "metric=exact_match"], own).values["seed"] == 77


def test_an_experiment_wins_over_the_defaults(folder: Folder) -> None:
    text = "# @package _global_\ndefaults:\n  - override /dataset: rag\n  - override /metric: exact_match\nseed: 42\n"
    own = folder({"experiment/mine.yaml": text})
    composed = compose(["experiment=mine"], own)
    assert composed.values["seed"] == 42
    assert list(composed.values["metric"]) == ["exact_match"]


def test_the_environment_changes_the_default_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALFLOW_JUDGE", "openai")
    assert compose(["dataset=rag", "metric=exact_match", "judge.model=m"]).choices["judge"] == "openai"


@pytest.mark.slow
def test_threads_may_compose_together() -> None:
    seeds = range(24)
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda seed: compose(["dataset=rag", "metric=exact_match", f"seed={seed}"]).values, seeds)
        assert [values["seed"] for values in found] == list(seeds)


@pytest.mark.parametrize(
    "arguments",
    [
        ("dataset=nope", "metric=exact_match"),
        ("dataset=rag", "metric=null"),
        ("dataset=rag", "metric=exact_match", "seed=["),
        ("dataset=rag", "metric=exact_match", "nonsense=1"),
        ("-m", "dataset=rag", "metric=exact_match,nope"),
        ("frobnicate",),
        ("--config-dir", "nowhere", "dataset=rag", "metric=exact_match"),
    ],
)
def test_mistakes_end_with_2_and_without_a_traceback(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = Program(tmp_path)(*arguments)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "error:" in done.stderr
    runs = [path for path in tmp_path.glob("outputs/runs/*") if path.is_dir()]
    assert runs == []


@pytest.mark.parametrize("word", ["hydra/launcher=joblib", "hydra.launcher._target_=os.system", "hydra/launcher=ray"])
def test_other_launchers_are_refused_with_what_to_use(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("-m", "metric=exact_match,token_f1"), ("check", "metric=exact_match")):
        assert run_command([*words, "dataset=rag", word]) == 2
        said = capsys.readouterr().err
        assert f"{word}: a launcher of Hydra" in said
        assert "engine=ray" in said


def test_a_resolved_configuration_names_secrets_and_does_not_show_them(tmp_path: Path) -> None:
    arguments = ("dataset=rag", "metric=exact_match", "judge=openai", "judge.model=m", "--cfg", "job", "--resolve")
    done = Program(tmp_path)(*arguments, OPENAI_API_KEY="sk-very-secret")
    assert done.returncode == 0, done.stderr
    assert "api_key_env: OPENAI_API_KEY" in done.stdout
    assert "sk-very-secret" not in done.stdout + done.stderr


@pytest.mark.slow
def test_two_runs_started_together_share_no_folder(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: Program(tmp_path).process("dataset=rag", "metric=exact_match"), range(2)))
    assert [one.returncode for one in done] == [0, 0], done[0].stderr
    assert len(list((tmp_path / "outputs" / "runs").iterdir())) == 2


def test_shadowing_is_said(tmp_path: Path, folder: Folder) -> None:
    own = folder({"dataset/rag.yaml": "# @package dataset.rag\npath: mine.jsonl\n"})
    (tmp_path / "mine.jsonl").write_text('{"question": "q", "answer": "a", "reference": "a"}\n', encoding="utf-8")
    done = Program(tmp_path)("--config-dir", str(own), "dataset=rag", "metric=exact_match")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("in place of the packaged") == 1


EVIL = "{_target_: subprocess.check_call, args: [touch, marker]}"
LOGGING = "{version: 1, formatters: {f: {(): subprocess.check_call, args: [touch, marker]}}}"


@pytest.mark.parametrize(
    ("name", "text", "key"),
    [
        ("local/default.yaml", f"# @package _global_\nhydra: {{callbacks: {{x: {EVIL}}}}}\n", "hydra"),
        ("local/default.yaml", f"# @package _global_\nhydra: {{sweeper: {{params: {{x: {EVIL}}}}}}}\n", "hydra"),
        ("local/default.yaml", "# @package _global_\nhydra: {job: {env_set: {LD_PRELOAD: x}}}\n", "hydra"),
        ("local/default.yaml", "# @package _global_\nhydra: '${oc.create:{callbacks:{x:1}}}'\n", "hydra"),
        ("local/default.yaml", f"# @package _global_\nx: [{EVIL}]\n", "x.0._target_"),
        ("local/default.yaml", f"# @package hydra.callbacks.x\n{EVIL}\n", "# @package"),
        ("local/default.yaml", f"# @package hydra\njob_logging: {LOGGING}\n", "# @package"),
        ("hydra/default.yaml", f"job_logging: {LOGGING}\n", "hydra"),
        ("target/recorded.yaml", "defaults: [{/experiment@_global_.hydra.callbacks.x: y}]\n", "defaults[0]"),
        ("target/recorded.yaml", "defaults: [{override /hydra/launcher: joblib}]\n", "defaults[0]"),
        ("target/recorded.yaml", "defaults: [/hydra/launcher/joblib]\n", "defaults[0]"),
        ("target/recorded.yaml", "defaults: [../../elsewhere/x]\n", "defaults[0]"),
        ("target/recorded.yaml", "defaults: [{/experiment: '${oc.decode:.}./x'}]\n", "defaults[0]"),
    ],
)
def test_a_config_folder_has_nothing_run(
    folder: Folder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    text: str,
    key: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    own = folder({name: text, "experiment/y.yaml": f"# @package _global_\n{LOGGING}\n"})
    assert run_command(["dataset=rag", "metric=exact_match", "limit=1", "--config-dir", str(own)]) == 2
    said = capsys.readouterr().err
    assert f"{own / name}: {key}" in said
    assert "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


def test_no_job_of_a_sweep_has_anything_run_either(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    evil = f"# @package _global_\nhydra: {{job_logging: {LOGGING}}}\n"
    own = folder({"experiment/fine.yaml": "# @package _global_\nlimit: 1\n", "experiment/evil.yaml": evil})
    chosen = ["-m", "dataset=rag", "metric=exact_match", "experiment=fine,evil"]
    assert run_command([*chosen, "--config-dir", str(own)]) == 2
    assert f"{own / 'experiment/evil.yaml'}: hydra" in capsys.readouterr().err
    assert not (tmp_path / "marker").exists()


def test_a_config_folder_may_say_what_a_sweep_goes_over(folder: Folder) -> None:
    text = "# @package _global_\nhydra: {sweeper: {params: {seed: '1,2'}}}\n"
    own = folder({"experiment/both.yaml": text})
    assert compose(["dataset=rag", "metric=exact_match", "experiment=both"], own).values["seed"] == 0


def test_a_file_whose_aliases_grow_beyond_measure_is_refused(tmp_path: Path) -> None:
    (folder := tmp_path / "metric").mkdir()
    (folder / "mine.yaml").write_text(f"# @package metric.mine\n{BOMB}", encoding="utf-8")
    text = complaint("dataset=rag", "metric=mine", config_dir=tmp_path)
    assert "with its aliases (*NAME) written out it has more than 100,000 values" in text
    (folder / "mine.yaml").write_text("# @package metric.mine\nmade: &a [*a]\n", encoding="utf-8")
    assert "with its aliases (*NAME) written out" in complaint("dataset=rag", "metric=mine", config_dir=tmp_path)


@pytest.mark.parametrize("name", ["experiment/mine.yaml", "local/default.yaml"])
@pytest.mark.parametrize(("line", "key"), [("nope: 1", "nope"), ("cache: {modee: off}", "cache.modee")])
def test_an_unknown_key_of_the_whole_configuration_names_its_file(
    folder: Folder, name: str, line: str, key: str
) -> None:
    own = folder({name: f"# @package _global_\n{line}\n"})
    chosen = ["experiment=mine"] if name.startswith("experiment") else []
    text = complaint("dataset=rag", "metric=exact_match", *chosen, config_dir=own)
    assert text.startswith(f"{own / name}: unknown key {key}\n")
