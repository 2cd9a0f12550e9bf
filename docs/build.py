"""Builds the documentation site into build/site: the pages of docs/, the README, and a reference made from the code.

    python docs/build.py

A link that leads nowhere, or to no heading, ends it with an error. The site opens from its folder, search included.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import evalflow
from evalflow.app.core.json_schema import group_schema
from evalflow.cli import run_command
from evalflow.cli.verbs import VERBS, overview
from evalflow.paths import GROUPS

ROOT = Path(__file__).resolve().parents[1]
SOURCE, SITE = ROOT / "build" / "pages", ROOT / "build" / "site"
OUTSIDE = {
    "../README.md": "overview.md",
    "../bench/README.md": "benchmarks.md",
    "../data/README.md": "data.md",
    "../data/rag_guideline.md": "rag_guideline.md",
    "../CONTRIBUTING.md": "contributing.md",
    "../CHANGELOG.md": "changelog.md",
}
"""Pages that stand outside of docs/, by how others link to them, with their names on the site."""
Pages = Mapping[str, str | Mapping[str, str]]

NAVIGATION: Mapping[str, Pages] = {
    "Start": {
        "Five jobs": "index.md",
        "Overview": "overview.md",
        "Installing": "install.md",
        "A tutorial in ten minutes": "tutorial.md",
        "Four paths": "people.md",
        "Questions of a sceptic": "sceptic.md",
    },
    "Measure": {
        "An evaluation in one file": "experiments.md",
        "Results": "results.md",
        "Data and bots": {
            "Data": "data.md",
            "Targets": "targets.md",
            "Agents": "agents.md",
            "Simulated users": "simulated_users.md",
            "How the sample answers are labelled": "rag_guideline.md",
        },
        "Metrics": {
            "Included metrics": "metrics.md",
            "A metric of your own": "own-metrics.md",
            "Checks of a case": "checks.md",
            "Rules": "rules.md",
            "G-Eval": "g-eval.md",
            "Replies": "replies.md",
            "Decision graphs": "graphs.md",
        },
        "Judges": {
            "Judges": "judges.md",
            "The embedded judge": "embedded-judge.md",
            "Panels and cascades": "panels.md",
            "Requests": "requests.md",
            "Half price by batch": "batch.md",
        },
        "Large runs": {
            "When one machine is not enough": "cluster.md",
            "Shared storage": "storage.md",
        },
    },
    "Compare and gate": {
        "Tests and CI": "ci.md",
        "Ranks of several systems": "ranking.md",
        "Looks, labels, groups": "looks-labels-groups.md",
        "Statistics": "statistics.md",
    },
    "Label": {
        "Calibration": "calibration.md",
        "Reviews": "reviews.md",
        "Labels": "labels.md",
        "Teach the judge": "align.md",
        "What a metric sees": "prove.md",
    },
    "For a team": {
        "The application": "application.md",
        "A server for a team": "deploy.md",
        "Signing in": "sign-in.md",
        "Who may do what": "access.md",
        "Connections": "connections.md",
        "Security": "security.md",
    },
    "Other tools": {
        "Import": "import.md",
        "Coming from promptfoo": "from-promptfoo.md",
        "Coming from deepeval": "from-deepeval.md",
        "Coming from ragas": "from-ragas.md",
        "Coming from OpenAI evals": "from-openai-evals.md",
        "GOV.UK Chat Evaluation": "govuk.md",
        "Tiamat": "tiamat.md",
        "Export": "export.md",
        "Assistants": "assistants.md",
    },
    "Reference": {
        "Commands": "reference-commands.md",
        "Configuration keys": "reference-keys.md",
        "REST": "reference-rest.md",
        "Python": {"How to use it": "python.md", "Names": "reference-python.md", "Extensions": "extending.md"},
        "The project": {
            "Benchmarks": "benchmarks.md",
            "Contributing": "contributing.md",
            "Changelog": "changelog.md",
        },
    },
}
"""The tabs of the site with their pages; a page of a section stands one level below."""


def main() -> int:
    """Copy and generate the pages, and build the site; returns the builder's exit code."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", SOURCE, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for page in SOURCE.glob("*.md"):
        page.write_text(_relinked(page.read_text(encoding="utf-8")), encoding="utf-8")
    for place, name in OUTSIDE.items():
        text = (ROOT / place.removeprefix("../")).read_text(encoding="utf-8")
        (SOURCE / name).write_text(_relinked(text), encoding="utf-8")
    reference = {"commands": commands(), "keys": keys(), "python": python(), "rest": rest()}
    for name, lines in reference.items():
        (SOURCE / f"reference-{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = ROOT / "build" / "zensical.toml"
    config.write_text(_config(), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "--config-file", str(config)]
    return subprocess.run(command, cwd=ROOT / "build").returncode


def _relinked(text: str) -> str:
    """The page with its links as they are on the site; files that are not pages are named without a link."""
    for place, name in OUTSIDE.items():
        text = text.replace(f"]({place}", f"]({name}").replace(f"]({place.removeprefix('../')}", f"]({name}")
    text = text.replace("](docs/", "](").replace("](../docs/", "](")
    return re.sub(r"\[([^\]]*)\]\((?:\.\./)?(?:LICENSE|data|conf|bench|prompts)[^)]*\)", r"\1", text)


def _entries(pages: Pages) -> str:
    """The pages as TOML: each an inline table of its title with its file, or with the pages of a section."""
    tables = (
        f"{{{json.dumps(title)} = {json.dumps(page) if isinstance(page, str) else _entries(page)}}}"
        for title, page in pages.items()
    )
    return f"[{', '.join(tables)}]"


def _config() -> str:
    tabs = ",\n".join(f"  {{{json.dumps(title)} = {_entries(pages)}}}" for title, pages in NAVIGATION.items())
    return f"""[project]
site_name = "evalflow"
site_description = "Evaluate LLM applications from YAML, with numbers that can be defended."
docs_dir = "{SOURCE.name}"
site_dir = "{SITE.name}"
nav = [
{tabs}
]

[project.theme]
font = false
features = ["navigation.tabs", "navigation.sections", "navigation.footer", "content.code.copy", "search.highlight"]

[project.plugins.offline]

[[project.extra.polyfills]]
path = "assets/iframe-worker.js"

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"

[project.markdown_extensions.toc]
permalink = true

[project.markdown_extensions.tables]
[project.markdown_extensions.attr_list]
[project.markdown_extensions.md_in_html]
[project.markdown_extensions.pymdownx.superfences]
[project.markdown_extensions.pymdownx.highlight]
"""


def commands() -> Iterator[str]:
    """The help of the program and of each verb."""
    yield "# Commands\n"
    yield f"```text\n{overview().rstrip()}\n```\n"
    for verb in VERBS.names():
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            run_command([verb, "--help"])
        yield f"## {verb}\n\n```text\n{out.getvalue().rstrip()}\n```\n"


def keys() -> Iterator[str]:
    """A table of the keys of each kind, with meaning, default and example."""
    yield "# Configuration keys\n"
    yield "Made from the schema that editors use (`python -m evalflow schema`).\n"
    for group in GROUPS:
        yield f"## {group}\n"
        for name, model in group_schema(group)["$defs"].items():
            kind = model.get("properties", {}).get("kind", {}).get("anyOf", [{}])[0].get("const")
            yield f"### {group}: {kind or re.sub('Config$', '', name)}\n"
            yield f"{_cell(model.get('description', ''))}\n"
            if not model.get("properties"):
                continue
            yield "| key | meaning | default | example |"
            yield "|---|---|---|---|"
            for key, about in model["properties"].items():
                default = f"`{_json(about['default'])}`" if "default" in about else ""
                example = f"`{_json(about['examples'][0])}`" if about.get("examples") else ""
                yield f"| `{key}` | {_cell(about.get('description', ''))} | {default} | {example} |"
            yield ""


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("|", "\\|")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def python() -> Iterator[str]:
    """The public names, with their signatures and docstrings."""
    yield "# Python\n\n[How to use it](python.md)."
    for name in sorted(evalflow.__all__, key=lambda name: (not name.islower(), name)):
        found = getattr(evalflow, name)
        signature = _signature(found) if inspect.isfunction(found) else ""
        yield f"\n## {name}\n\n```python\n{name}{signature}\n```\n"
        yield _docstring(found)
        if inspect.isclass(found) and not issubclass(found, Exception):
            for own, member in vars(found).items():
                if not own.startswith("_") and (isinstance(member, property) or inspect.isfunction(member)):
                    called = "" if isinstance(member, property) else _signature(member)
                    yield f"\n- `{name}.{own}{called}`: {_docstring(member).replace(chr(10), ' ')}"


def _signature(found: Callable[..., Any]) -> str:
    """The signature, without the quotes of annotations that are not evaluated."""
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(found)))


def _docstring(found: object) -> str:
    """The docstring; its lists of arguments become lists."""
    lines: list[str] = []
    for line in (inspect.getdoc(found) or "").splitlines():
        if section := re.match(r"(Args|Raises|Attributes):$", line):
            lines += [f"**{section[1]}**", ""]
        elif item := re.match(r"    (\w+): (.*)", line):
            lines.append(f"- `{item[1]}`: {item[2]}")
        else:
            lines.append(line.strip() if line.startswith("     ") else line)
    return "\n".join(lines)


def rest() -> Iterator[str]:
    """The requests of the REST API, by resource."""
    from evalflow.addons.studio.web.application import rest_api

    yield "# REST\n"
    yield "Below `/api/v1`, where `serve` has the whole description at `openapi.json`. [Who may do what](access.md).\n"
    found: dict[str, list[str]] = {}
    for path, requests in rest_api().openapi()["paths"].items():
        for method, about in requests.items():
            said = _cell((about.get("description") or about.get("summary") or "").split("\n\n")[0])
            found.setdefault(path.split("/")[1], []).append(f"| `{method.upper()} {path}` | {said} |")
    for resource, lines in sorted(found.items()):
        yield "\n".join([f"\n## {resource}\n", "| request | |", "|---|---|", *lines])


if __name__ == "__main__":
    sys.exit(main())
