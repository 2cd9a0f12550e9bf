"""Save the overrides of a command line as an experiment: a YAML file that defines the same run."""

from __future__ import annotations

from collections.abc import Sequence

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from evalflow.config.faults import as_user_errors
from evalflow.config.foreign_keys import MULTI_SELECT, ROOT_GROUPS, SINGLE_SELECT
from evalflow.config.overrides import quoted
from evalflow.errors import Problem, UserError


def experiment_yaml(name: str, overrides: Sequence[str]) -> str:
    """Return the text of conf/experiment/NAME.yaml with the same effect as the overrides.

    UserError if one cannot be parsed, is a sweep, deletes a key, or chooses an experiment.

    Example:
        >>> print(experiment_yaml("short", ["dataset=rag", "metric=[faithfulness,relevance]", "limit=5"]), end="")
        # @package _global_
        defaults:
          - override /dataset: rag
          - override /metric: [faithfulness, relevance]
        <BLANKLINE>
        limit: 5
    """
    words = quoted(overrides)
    with as_user_errors(words):
        parsed = OverridesParser.create().parse_overrides(words)
    chosen, values = dict[str, object](), OmegaConf.create()
    for override in parsed:
        key, place = override.key_or_group, str(override.input_line)
        if override.is_sweep_override():
            hint = f"leave it out, and sweep over the experiment: -m experiment={name} {place}"
            raise UserError(Problem("a sweep is several runs, but an experiment is one", place, hint))
        if override.is_delete() or key in ROOT_GROUPS:
            hint = "say what the experiment chooses, such as dataset=rag metric=faithfulness judge.temperature=0"
            raise UserError(Problem("an experiment cannot extend another one", place, hint))
        if key in (*SINGLE_SELECT, *MULTI_SELECT):
            chosen[key] = override.value()
        else:
            OmegaConf.update(values, key, override.value(), force_add=True)
    choices = "".join(f"  - override /{group}: {_in_line(choice)}\n" for group, choice in chosen.items())
    settings = f"\n{OmegaConf.to_yaml(values)}" if values else ""
    return f"# @package _global_\ndefaults:\n{choices}{settings}"


def _in_line(value: object) -> str:
    return (
        yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=100_000).removesuffix("...\n").strip()
    )
