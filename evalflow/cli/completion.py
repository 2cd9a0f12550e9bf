"""Completion in shells: scripts that ask evalflow itself, and what it answers."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from evalflow.cli.parsing import parser_of
from evalflow.paths import GROUPS, conf_dirs

ASK = "--complete"
"""The hidden first argument of a question: the words so far follow, the last of which is to be completed."""
_GROUPS = (*GROUPS, "embedder", "simulator", "engine", "experiment")
_KEYS = (
    "generate=", "limit=", "sample=", "seed=", "repeats.target=", "repeats.judge=", "cache.mode=", "budget.usd=",
    "budget.requests=", "gate=", "baseline=", "otel.endpoint=", "otel.text=", "copy_to=",
)  # fmt: skip
_RUNS = frozenset({"run", "check", "race", "prove", "tiamat"})  # the verbs that take overrides
# The options of each verb, in the order of its help; tests hold them against the parsers.
OPTIONS: Mapping[str, Sequence[str]] = {
    "run": ("--config-dir", "--multirun", "--fill-demo", "--replace-demo", "--help"),
    "check": ("--config-dir", "--json", "--help"),
    "tiamat": (),
    "resume": ("--retry-errors", "--trust-program"),
    "cases": ("--failed", "--metric", "--tag", "--id", "--limit", "--json"),
    "report": (),
    "open": (),
    "compare": (
        "--margin", "--unpaired", "--labels", "--judge-alone", "--tags", "--classes", "--adjust", "--allow", "--json",
    ),
    "race": ("--metric", "--margin", "--json"),
    "prove": ("--run", "--base", "--calls", "--by", "--json"),
    "rank": ("--metric", "--pairwise", "--items", "--labels", "--short", "--out", "--allow", "--json"),
    "calibrate": (
        "--labels", "--no-split", "--json", "--sample", "--out", "--seed", "--stratify", "--by-group", "--metric",
    ),
    "plan": (
        "--cases", "--from", "--metric", "--labels", "--detect", "--width", "--sd", "--noise", "--rate", "--flips",
        "--correlation", "--judge-correlation", "--cluster-size", "--icc", "--alpha", "--power", "--assurance",
        "--json",
    ),
    "list": ("--json",),
    "show": ("--json",),
    "new": (),
    "import": ("--name", "--root"),
    "export": ("--to", "--project", "--text", "--again"),
    "schema": ("--out", "--vscode"),
    "cache": (),
    "worker": ("--database-url", "--at-once", "--attached", "--log"),
    "serve": (
        "--host", "--port", "--database-url", "--open", "--no-token", "--public", "--tls-cert", "--tls-key", "--proxy",
        "--metrics-from", "--oidc-issuer", "--oidc-client-id", "--oidc-client-secret-env", "--oidc-name",
        "--oidc-sign-up", "--user-header", "--user-header-secret-env", "--log",
    ),
    "users": (),
    "connections": (),
    "backup": ("--database-url", "--no-cache"),
    "restore": ("--database-url",),
    "mcp": ("--allow-run",),
    "completion": (),
}  # fmt: skip
_ACTIONS = {
    "new": ("metric", "dataset"),
    "export": ("otel", "mlflow", "weave", "storage"),
    "cache": ("stats", "prune"),
    "users": ("list", "add", "link", "disable", "enable", "delete"),
    "connections": ("list", "add", "delete"),
    "completion": ("bash", "zsh", "fish"),
    "list": (*_GROUPS, "certificates"),
}

_BASH = """\
_evalflow() {
    local IFS=$'\\n' line=${COMP_LINE:0:COMP_POINT} word
    local -a words
    IFS=' ' read -ra words <<< "$line"
    [[ $line == *' ' ]] && words+=('')
    word=${words[-1]}
    COMPREPLY=($(evalflow --complete "${words[@]:1}" 2>/dev/null))
    # Bash breaks words at = and :, and replaces only what follows the last of them.
    local kept=${word%"${word##*[=:]}"}
    COMPREPLY=("${COMPREPLY[@]#"$kept"}")
    [[ ${#COMPREPLY[@]} -eq 0 ]] && compopt -o default
    [[ ${COMPREPLY[0]} == *= || ${COMPREPLY[0]} == */ ]] && compopt -o nospace
}
complete -F _evalflow evalflow
"""
_ZSH = """\
_evalflow() {
    local -a found open
    found=("${(@f)$(evalflow --complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    open=(${(M)found:#*=})
    found=(${found:#*=})
    [[ ${#open} -gt 0 ]] && compadd -S '' -- $open
    [[ ${#found} -gt 0 ]] && compadd -- $found
    [[ $(( ${#open} + ${#found} )) -eq 0 ]] && _files
}
compdef _evalflow evalflow
"""
_FISH = """\
function __evalflow_complete
    set -l words (commandline -opc) (commandline -ct)
    evalflow --complete $words[2..-1] 2>/dev/null
end
complete -c evalflow -a '(__evalflow_complete)'
"""
SCRIPTS: Mapping[str, str] = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def print_completion(words: list[str]) -> int:
    """Print the script of a shell."""
    parser = parser_of("completion", "Complete verbs, options and names in your shell, for the command `evalflow`.")
    parser.add_argument("shell", choices=SCRIPTS, metavar="SHELL", help=" | ".join(SCRIPTS))
    sys.stdout.write(SCRIPTS[parser.parse_args(words).shell])
    return 0


def print_candidates(words: Sequence[str], verbs: Iterable[str]) -> int:
    """Print what the last word may become, one a line; nothing where a file may stand."""
    for one in candidates(words, verbs):
        sys.stdout.write(f"{one}\n")
    return 0


def candidates(words: Sequence[str], verbs: Iterable[str]) -> list[str]:
    """What the last word may become. Groups are completed with the names in conf/, also after a comma or a bracket."""
    *before, word = words or [""]
    known = set(verbs)
    verb = next((one for one in before if one in known), None)
    found: list[str] = []
    if word.startswith("-"):
        found = [option for option in OPTIONS[verb or "run"] if option not in before]
    elif group := re.match(rf"\+?({'|'.join(_GROUPS)})=(.*)", word):
        if verb is None or verb in _RUNS:
            found = _chosen(group[1], word[: -len(group[2])] if group[2] else word, group[2])
    elif verb is None or verb in _RUNS:
        found = [*(sorted(known) if not before else ()), *(f"{name}=" for name in _GROUPS), *_KEYS]
        found += [f"metric.{name}." for name in _metrics(before)]
    elif verb == "show":
        found = [name for group in _GROUPS for name in _names(group)]
    elif before[-1] == verb:
        found = list(_ACTIONS.get(verb, ()))
    return [one for one in dict.fromkeys(found) if one.startswith(word)]


def _chosen(group: str, start: str, value: str) -> list[str]:
    """The value with each name that may follow its last comma, without those that it has already."""
    head, _, _ = value.rpartition(",") if "," in value else ("[" if value.startswith("[") else "", "", "")
    kept = f"{head}," if "," in value else head
    taken = set(re.split(r"[\[,]", kept))
    return [f"{start}{kept}{name}" for name in _names(group) if name not in taken]


def _names(group: str) -> list[str]:
    """The names of a group's files in the working directory and in the package."""
    files = (file.stem for folder in conf_dirs() for file in Path(folder, group).glob("*.yaml"))
    return sorted({name for name in files if not name.startswith("_")})


def _metrics(words: Iterable[str]) -> list[str]:
    found = (word.partition("=")[2] for word in words if word.startswith("metric="))
    return [name for value in found for name in re.findall(r"\w+", value)]
