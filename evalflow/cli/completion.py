"""Completion in shells: scripts that ask evalflow itself, and its answers."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from evalflow.cli.parsing import Verb, VerbParser, Work
from evalflow.doors import Door
from evalflow.paths import GROUPS, conf_dirs

ASK = "--complete"
"""The hidden first argument of a shell's request. The words so far follow; the last one is to be completed."""
KEYS = (
    "generate=",
    "limit=",
    "sample=",
    "case_timeout_s=",
    "max_error_rate=",
    "seed=",
    "repeats.target=",
    "repeats.judge=",
    "cache.mode=",
    "budget.usd=",
    "budget.requests=",
    "gate=",
    "baseline=",
    "otel.endpoint=",
    "otel.text=",
    "copy_to=",
    "objective=",
)
_RUNS = frozenset({"run", "check", "race", "prove", "tiamat"})  # the verbs that take overrides

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


def print_completion(parser: VerbParser) -> Work:
    """Print the script of a shell."""
    parser.add_word("shell", SCRIPTS)

    def work(options: Namespace) -> int:
        sys.stdout.write(SCRIPTS[options.shell])
        return 0

    return work


def print_candidates(words: Sequence[str], verbs: Door[Verb]) -> int:
    """Print what the last word may become, one a line; nothing if a file may stand there."""
    for one in candidates(words, verbs):
        sys.stdout.write(f"{one}\n")
    return 0


def candidates(words: Sequence[str], verbs: Door[Verb]) -> list[str]:
    """What the last word may become. Groups are completed with the names in conf/, also after a comma or a bracket."""
    *before, word = words or [""]
    verb = next((one for one in before if one in verbs), None)
    completions: list[str] = []
    if word.startswith("-"):
        completions = [option for option in _parser(before, verb or "run", verbs).options if option not in before]
    elif group := re.match(rf"\+?({'|'.join(GROUPS)})=(.*)", word):
        if verb is None or verb in _RUNS:
            completions = _chosen(group[1], word[: -len(group[2])] if group[2] else word, group[2])
    elif verb is None or verb in _RUNS:
        completions = [*(sorted(verbs) if not before else ()), *(f"{name}=" for name in GROUPS), *KEYS]
        completions += [f"metric.{name}." for name in _metrics(before)]
    elif verb == "show":
        completions = [name for group in GROUPS for name in _names(group)]
    elif before[-1] == verb:
        completions = _parser(before, verb, verbs).choices
    return [one for one in dict.fromkeys(completions) if one.startswith(word)]


def _parser(before: Sequence[str], verb: str, verbs: Door[Verb]) -> VerbParser:
    """The parser of a verb, or of its action if one is named, such as `cache stats`."""
    parser, _ = verbs.get(verb).declared(verb)
    return next((parser.actions[one] for one in before if one in parser.actions), parser)


def _chosen(group: str, start: str, value: str) -> list[str]:
    """The value completed with each name that may follow its last comma, except names that it already has."""
    head, _, _ = value.rpartition(",") if "," in value else ("[" if value.startswith("[") else "", "", "")
    kept = f"{head}," if "," in value else head
    taken = set(re.split(r"[\[,]", kept))
    return [f"{start}{kept}{name}" for name in _names(group) if name not in taken]


def _names(group: str) -> list[str]:
    """The names of a group's files in the working directory and in the package."""
    files = (file.stem for folder in conf_dirs() for file in Path(folder, group).glob("*.yaml"))
    return sorted({name for name in files if not name.startswith("_")})


def _metrics(words: Iterable[str]) -> list[str]:
    chosen = (word.partition("=")[2] for word in words if word.startswith("metric="))
    return [name for value in chosen for name in re.findall(r"\w+", value)]
