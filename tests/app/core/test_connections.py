"""A configuration calls connections only, in each of its parts, or is refused before anything is sent."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from evalflow import doors
from evalflow.app.core.assemble import assemble, composed_settings
from evalflow.app.core.connections import NEVER, OWNERS, PARTS, PUBLIC_OPTIONS, refuse_owners_options
from evalflow.calls.connections import VARIABLE, Connection, Connections
from evalflow.config.kinds import Kind
from evalflow.config.schema import JudgeConfig, MetricConfig, RunConfig
from evalflow.errors import UserError
from evalflow.llm.panel import Panel

pytestmark = pytest.mark.slow

HERE, KEY = "http://127.0.0.1:9/v1", "OWN_KEY"
KNOWN = Connections(
    tuple(Connection(name, HERE, key, ("127.0.0.1/32",)) for name, key in (("own", KEY), ("free", None)))
)
OWN = f"base_url: '{HERE}', api_key_env: {KEY}"
JUDGE = ("judge=openai", f"judge.base_url={HERE}", f"judge.api_key_env={KEY}")
BOT = ("generate=true", "target=http", f"target.url={HERE}/ask", "target.answer=$.a")
MODEL = ("generate=true", "target=openai", "target.model=m", f"target.base_url={HERE}", "target.api_key_env=null")
PANEL = ("judge=panel", f"judge.members.first={{kind: openai, model: a, {OWN}}}")
POLL = f"{{url: '{HERE}/{{{{opened.id}}}}', until: {{$.a: [1]}}}}"
BAD = "belongs to no connection of this server"


class Packaged:
    """What an installed package offers as kinds called oracle."""

    judge = Kind(JudgeConfig, lambda *_: None)
    metric = Kind(MetricConfig, lambda *_: None)


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (JUDGE, {}),
        ((*JUDGE, "judge.client=sdk"), {}),
        ((*JUDGE, *BOT, "target.headers={Authorization: 'Bearer ${oc.env:OWN_KEY}'}"), {}),
        ((*JUDGE, *MODEL, "judge=target"), {}),
        ((*PANEL, f"judge.members.second={{kind: openai, model: b, {OWN}}}"), {}),
        (("judge=openai",), {"judge.base_url": "https://api.openai.com/v1 " + BAD}),
        ((*JUDGE, "judge.api_key_env=PATH"), {"judge.api_key_env": "own is called with the key in OWN_KEY"}),
        ((*JUDGE, "judge.base_url='http://u:${oc.env:OWN_KEY}@127.0.0.1:9/v1'"), {"judge": KEY, "judge.base_url": "u"}),
        ((*JUDGE, "judge.name=${oc.env:OWN_KEY}"), {"judge": "OWN_KEY cannot be read here"}),
        ((*JUDGE, "target.name=${oc.env:PATH}"), {"target": "PATH cannot be read here"}),
        ((*PANEL, "judge.members.second.model=n"), {"judge.members.second.base_url": BAD}),
        (
            (
                *JUDGE,
                f"+metric.coherence.judge={{base_url: 'http://127.0.0.1:10/v1', api_key_env: {KEY}, "
                "name: '${oc.env:PATH}'}",
            ),
            {"metric.coherence.judge.base_url": BAD, "metric.coherence.judge": "PATH"},
        ),
        ((*JUDGE, "embedder=openai"), {"embedder.base_url": BAD}),
        ((*JUDGE, *MODEL, "simulator=openai"), {"simulator.base_url": BAD}),
        ((*JUDGE, *MODEL, "target.base_url=http://127.0.0.1:9"), {"target.base_url": BAD}),
        ((*JUDGE, *BOT, "target.url='http://127.0.0.1:9/v1?k=${oc.env:OWN_KEY}'"), {"target": "OWN_KEY cannot"}),
        ((*JUDGE, *BOT, f"target.open={{url: '{HERE}/threads'}}", f"target.poll={POLL}"), {}),
        ((*JUDGE, *BOT, "target.open={url: /threads}"), {"target.url": BAD}),
        ((*JUDGE, *BOT, "target.open={url: '" + HERE + "/t', body: '${oc.env:PATH}'}"), {"target": "PATH cannot"}),
        ((*JUDGE, *BOT, "target.headers={X: '${oc.env:PATH}'}"), {"target.headers": "PATH cannot be read for it"}),
        ((*JUDGE, *BOT, "target.headers={hOST: other}"), {"target.headers": "the header hOST could lead to another"}),
        ((*JUDGE, *BOT, "target.headers={Proxy-Authorization: '${oc.env:OWN_KEY}'}"), {"target.headers": "Proxy-Auth"}),
        ((*JUDGE, *BOT, "target.body={x: '${oc.env:PATH}'}"), {"target": "PATH cannot be read here"}),
        ((*JUDGE, *BOT, "target.body={x: '${oc.env:OWN_KEY}'}"), {"target": "OWN_KEY cannot be read here"}),
        (
            (*JUDGE, *BOT, "target.body={x: '${target.headers.Y}'}", "target.headers={Y: '${oc.env:OWN_KEY}'}"),
            {"target.body.x": "${target.headers.Y} cannot be read here"},
        ),
        (
            (*JUDGE, *BOT, "target.headers={X: '${oc.decode:${oc.env:OWN_KEY}}'}"),
            {"target.headers.X": "${oc.decode:${oc.env:OWN_KEY}} cannot be read here"},
        ),
        (
            (*JUDGE, *BOT, "target.body={x: '${oc.${dataset.rag.description}:PATH}'}", "dataset.rag.description=env"),
            {"target.body.x": "${oc.${dataset.rag.description}:PATH} cannot be read here"},
        ),
        ((*JUDGE, "metric.coherence.description='${oc.env:PATH}'"), {"metric.coherence.description": "${oc.env:PATH}"}),
        ((*JUDGE, "dataset.rag.description='${oc.env:PATH}'"), {"dataset.rag.description": "${oc.env:PATH} cannot"}),
        ((*JUDGE, "dataset.rag.description='\\${oc.env:PATH}'"), {}),
        ((*JUDGE, "baseline='${oc.env:PATH}'"), {"baseline": "${oc.env:PATH} cannot be read here"}),
        ((*JUDGE, "engine=ray"), {"engine": "engine can be set on a public server by its owner only"}),
        ((*JUDGE, "copy_to=s3://bucket/runs"), {"copy_to": "a public server reaches its connections only"}),
        ((*JUDGE, "limit=3", "seed=1", "repeats.judge=2", "budget.requests=5"), {}),
        ((*JUDGE, "generate=true", "target=command", "target.argv=[ls]"), {"target.kind": "runs a program"}),
        ((*JUDGE, "generate=true", "target=python", "target.call=os:getcwd"), {"target.kind": "runs a program"}),
        ((*JUDGE, *MODEL, "target=agent", "target.tools={a: {argv: [ls]}}"), {"target.kind": "runs a program"}),
        ((*JUDGE, "+metric.own={kind: oracle}"), {"metric.own.kind": "the kind 'oracle' comes from an installed"}),
        (("judge={kind: oracle}",), {"judge.kind": "the kind 'oracle' comes from an installed package"}),
        (
            (*JUDGE, "judge.client=sdk", "judge.azure={api_version: '2024'}", "judge.model=../../other"),
            {"judge.base_url": "must not lead up"},
        ),
        ((*JUDGE, "judge.client=sdk", "judge.azure={api_version: '2024'}", "judge.model=gpt-4.1"), {}),
        (
            (*JUDGE, "judge.client=sdk", "judge.azure={sign_in: entra}"),
            {"judge.azure.sign_in": "the server does not sign in with its own identity"},
        ),
    ],
)
def test_each_part_calls_a_connection(
    words: tuple[str, ...], refused: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "sk-own")
    oracles = [EntryPoint("oracle", f"{__name__}:Packaged.{role}", f"evalflow.{role}s") for role in ("judge", "metric")]
    groups = ("evalflow.engines", "evalflow.judges", "evalflow.embedders")
    installed = [point for group in groups for point in doors.installed_points().select(group=group)]
    monkeypatch.setattr(doors, "installed_points", lambda: EntryPoints([*installed, *oracles]))
    settings = composed_settings(["dataset=rag", "metric=coherence", *words], None)
    if not refused:
        judge = assemble(settings, connections=KNOWN).pairs[0].judge
        assert isinstance(judge, Panel) == ("judge=panel" in words)
        return
    with pytest.raises(UserError) as caught:
        assemble(settings, connections=KNOWN)
    found = {problem.where: problem.what for problem in caught.value.problems}
    assert found.keys() == refused.keys()
    assert [what for where, what in refused.items() if what not in found[where]] == []


def test_a_process_with_a_list_calls_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = composed_settings(["dataset=rag", "metric=coherence", "judge=vllm", "judge.model=m"], None)
    assemble(settings)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "connections"))
    with pytest.raises(UserError, match="the connections cannot be read"):
        assemble(settings)
    for known, hint in ((KNOWN, "the connections are: own"), (Connections(()), "there is no connection yet")):
        known.write(tmp_path / "connections")
        with pytest.raises(UserError, match=BAD) as caught:
            assemble(settings)
        assert hint in caught.value.problems[0].hint


def test_each_root_key_is_decided_about() -> None:
    """Anyone who adds a root key of a run decides here whether people may set it on a public server."""
    decided = [PARTS, PUBLIC_OPTIONS, OWNERS, NEVER]
    assert sum(map(len, decided)) == len(frozenset().union(*decided))
    assert frozenset().union(*decided) == RunConfig.model_fields.keys()


def test_only_the_owner_chooses_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(KEY, "sk-own")

    def engine(*words: str) -> None:
        settings = composed_settings(["dataset=rag", "metric=coherence", *JUDGE, *words], None)
        assemble(settings, connections=KNOWN)

    local = tmp_path / "conf" / "local" / "default.yaml"
    local.parent.mkdir(parents=True)
    (tmp_path / "conf" / "judge").mkdir()
    local.write_text("# @package _global_\nengine: {kind: ray, address: auto}\n", encoding="utf-8")
    engine()
    for words in (["engine.address='10.0.0.1:1'"], ["+engine.actors=1"]):
        with pytest.raises(UserError, match="engine can be set on a public server by its owner only"):
            engine(*words)
    for refused in ("engine", "copy_to", "hydra", "anything"):
        with pytest.raises(UserError):
            refuse_owners_options(["limit", refused])
    refuse_owners_options(PUBLIC_OPTIONS)
