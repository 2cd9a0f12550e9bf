"""The checks of cases run without being asked for: a run of cases that have some also has the metric `checks`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.addons.studio.store import uses
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.checks import custom_checks
from evalflow.addons.studio.work.datasets import own_row
from evalflow.addons.studio.work.own_parts import Own, checking
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.metrics.case_checks import asks_judge
from evalflow.values.jsonvalues import as_list, as_map

if TYPE_CHECKING:
    from evalflow.addons.studio.work.space import Workspace
    from evalflow.records import Case

_FILE = "notices.json"
CHECKS = "checks"
"""The library's metric that runs the checks of cases."""


@dataclass(frozen=True, slots=True)
class AddedChecks:
    """The checks that a run gets by itself.

    Attributes:
        only: Identifiers of those that run, perhaps none; None: all.
        left_out: Identifiers of those that do not, since they ask a judge that is a language model.
    """

    only: Sequence[str] | None = None
    left_out: Sequence[str] = ()

    @property
    def notices(self) -> list[str]:
        """What the person who starts the run should know."""
        if not self.left_out:
            return []
        why = "the judge compares texts and is not a language model"
        return [f"checks that ask a judge are left out ({', '.join(self.left_out)}): {why}; choose another judge"]

    def request(self, request: RunRequest) -> RunRequest:
        """The request with the checks, if any runs."""
        return request if self.only == () else replace(request, metrics=[*request.metrics, CHECKS])

    def values(self, values: Mapping[str, object]) -> dict[str, object]:
        """The values that a run changes, with which checks run."""
        if not self.only:  # all, or none
            return dict(values)
        metrics = as_map(values.get("metric"))
        chosen = {**as_map(metrics.get(CHECKS)), "only": list(self.only)}
        return {**values, "metric": {**metrics, CHECKS: chosen}}


@requires("read")
def may_have_checks(space: Workspace, request: RunRequest, own: Own) -> bool:
    """Whether its cases may have checks that none of its metrics runs; those of conf/ may always."""
    if any(checking(space, request)):
        return False
    rows = [own_row(space, name)["id"] for name in own.datasets]
    return len(own.datasets) < len(request.datasets) or bool(rows and space.read(uses.have_checks, rows))


@requires("read")
def added_checks(space: Workspace, cases: Iterable[Case], *, judges: bool) -> AddedChecks | None:
    """The checks of a run's cases; None if none has one. `judges`: whether its judge is a language model."""
    custom = custom_checks(space)
    free, asking = dict[str, None](), dict[str, None]()
    for case in cases:
        for check in case.checks or ():
            name = str(check.get("identifier"))
            if check.get("enabled", True) and name not in asking:
                (asking if _asks(check, custom) else free)[name] = None
    if judges or not asking:
        return AddedChecks() if free or asking else None
    return AddedChecks(tuple(name for name in free if name not in asking), list(asking))


def _asks(check: Mapping[str, Any], custom: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a judge decides a check of a case, or one in its group; own checks have a type and parameters."""
    known = custom.get(str(check.get("identifier")), {})
    kind = known.get("type", check.get("identifier"))
    params = {**as_map(known.get("params")), **as_map(check.get("params"))}
    return asks_judge(kind, params) or any(_asks(as_map(one), custom) for one in as_list(params.get("checks")))


def keep_notices(snapshot: Path, notices: Sequence[str]) -> None:
    """Save the notices of a planned run beside what it uses."""
    if notices:
        (snapshot / _FILE).write_text(json.dumps(list(notices)), encoding="utf-8")


def read_notices(snapshot: Path) -> list[str]:
    """The same; empty if there was nothing to say."""
    try:
        return [str(one) for one in as_list(json.loads((snapshot / _FILE).read_bytes()))]
    except (OSError, ValueError):
        return []
