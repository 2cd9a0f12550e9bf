"""The YAML of a metric, as in a file of conf/metric."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import cast

import yaml

from evalflow.config.load import read_yaml
from evalflow.config.yaml_text import escaped, unescaped, yaml_of
from evalflow.errors import Problem, UserError
from evalflow.values.jsonvalues import as_list, as_map

KEY = "yaml"
"""The key of a problem with the YAML text itself."""
_JUDGE = "/judge@judge"
LONGEST, DEEPEST = 200_000, 200
"""Limits: characters, and levels of nested brackets."""


def metric_yaml(definition: Mapping[str, object]) -> str:
    """The YAML of a definition, with its keys in order; it is valid as a file of conf/metric."""
    return yaml_of(metric_option(definition))


def metric_option(definition: Mapping[str, object]) -> dict[str, object]:
    """The values of a file of conf/metric. A judge given by name becomes an entry of the defaults list."""
    judge = definition.get("judge")
    if not isinstance(judge, str):
        return escaped({**definition})
    others = {key: value for key, value in definition.items() if key != "judge"}
    return {"defaults": [{_JUDGE: judge}, "_self_"], **escaped(others)}


def judge_by_name(values: Mapping[str, object]) -> dict[str, object]:
    """Turn the entry that `metric_option` makes for a judge back into its name."""
    defaults = values.get("defaults")
    judge = as_map(as_list(defaults)[0]).get(_JUDGE) if as_list(defaults) else None
    if not isinstance(judge, str) or defaults != [{_JUDGE: judge}, "_self_"]:
        return dict(values)
    return {**{key: value for key, value in values.items() if key != "defaults"}, "judge": judge}


def read_metric_yaml(text: str) -> dict[str, object]:
    """Parse a metric's YAML like Hydra, but refuse aliases, which JSON cannot represent.

    `create_metric` validates the content.
    """
    if len(text) > LONGEST:
        raise _fault(f"the YAML has {len(text):,} characters, of at most {LONGEST:,}")
    depths = accumulate((mark in "[{") - (mark in "]}") for mark in text if mark in "[]{}")
    if max(depths, default=0) > DEEPEST:  # the parser takes quadratic time in the depth
        raise _fault(f"this is not YAML: more than {DEEPEST} brackets stand within each other")
    try:
        events = list(cast("Iterable[object]", yaml.parse(text, yaml.SafeLoader)))  # pyright: ignore - untyped
        if any(isinstance(event, yaml.AliasEvent) for event in events):
            raise _fault("the YAML has aliases (*NAME)", "write out what they stand for")
        if not any(isinstance(event, yaml.MappingStartEvent) for event in events[2:3]):
            raise _fault("this is not a map of keys", "such as kind: g_eval")
        content = unescaped(read_yaml(text))
        json.dumps(content, allow_nan=False)
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise _fault(f"this is not YAML{line}: {error.problem}") from None
    except UserError as error:
        raise UserError([Problem(one.what, hint=one.hint, key=KEY) for one in error.problems]) from None
    except TypeError as error:
        raise _fault(f"the YAML holds what is not JSON: {error}", "write texts, numbers, lists and maps") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _fault(f"this is not YAML: {error}") from None
    return judge_by_name({str(key): value for key, value in cast("dict[object, object]", content).items()})


def _fault(what: str, hint: str = "") -> UserError:
    return UserError(Problem(what, hint=hint, key=KEY))
