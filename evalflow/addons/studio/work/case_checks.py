"""Run the checks of cases automatically: a run whose cases have checks also gets the metric `checks`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.addons.studio.store import uses
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.checks import custom_checks
from evalflow.addons.studio.work.datasets import dataset_id
from evalflow.addons.studio.work.own_parts import Own, checking
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.metrics.case_checks import asks_judge
from evalflow.values.jsonvalues import as_list, as_map

if TYPE_CHECKING:
    from evalflow.addons.studio.work.space import Workspace
    from evalflow.records import Case

_FILE = "notices.json"
CHECKS = "checks"
"""The library metric that runs the checks of cases."""


@dataclass(frozen=True, slots=True)
class AddedChecks:
    """The checks added to a run automatically.

    Attributes:
        only: Identifiers of the checks to run, perhaps none; None: all.
        left_out: Identifiers of skipped checks: they need a judge that is a language model.
    """

    only: Sequence[str] | None = None
    left_out: Sequence[str] = ()

    @property
    def notices(self) -> list[str]:
        """Notices for the person who starts the run."""
        if not self.left_out:
            return []
        why = "the judge compares texts and is not a language model"
        return [f"checks that ask a judge are left out ({', '.join(self.left_out)}): {why}; choose another judge"]

    def request(self, request: RunRequest) -> RunRequest:
        """Add the metric `checks` to a request, unless every check is left out."""
        return request if self.only == () else replace(request, metrics=[*request.metrics, CHECKS])

    def values(self, values: Mapping[str, object]) -> dict[str, object]:
        """Add the choice of checks to the values that a run changes."""
        if not self.only:  # all or none
            return dict(values)
        metrics = as_map(values.get("metric"))
        chosen = {**as_map(metrics.get(CHECKS)), "only": list(self.only)}
        return {**values, "metric": {**metrics, CHECKS: chosen}}


@requires("read")
def may_have_checks(space: Workspace, request: RunRequest, own: Own) -> bool:
    """Whether the cases may have checks that no metric of the run covers. Datasets of conf/ are assumed to."""
    if any(checking(space, request)):
        return False
    rows = [dataset_id(space, name) for name in own.datasets]
    return len(own.datasets) < len(request.datasets) or bool(rows and space.read(uses.have_checks, rows))


@requires("read")
def added_checks(space: Workspace, cases: Iterable[Case], *, judges: bool) -> AddedChecks | None:
    """The checks to add for a run's cases; None if no case has one. `judges`: whether the judge is a language model."""
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
    """Whether a case's check, or a check in its group, needs a judge. `custom`: the reusable checks by name."""
    known = custom.get(str(check.get("identifier")), {})
    kind = known.get("type", check.get("identifier"))
    params = {**as_map(known.get("params")), **as_map(check.get("params"))}
    return asks_judge(kind, params) or any(_asks(as_map(one), custom) for one in as_list(params.get("checks")))


def keep_notices(snapshot: Path, notices: Sequence[str]) -> None:
    """Save the notices of a planned run in its snapshot."""
    if notices:
        (snapshot / _FILE).write_text(json.dumps(list(notices)), encoding="utf-8")


def read_notices(snapshot: Path) -> list[str]:
    """Read the saved notices; empty without any."""
    try:
        return [str(one) for one in as_list(json.loads((snapshot / _FILE).read_bytes()))]
    except (OSError, ValueError):
        return []
