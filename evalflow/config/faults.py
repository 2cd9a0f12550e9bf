"""Turn errors of Hydra, OmegaConf and YAML into problems: what, where, and the next step."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import yaml
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import InterpolationKeyError, MissingMandatoryValue, OmegaConfBaseException

from evalflow.errors import Problem, UserError, did_you_mean


class AbsentKeyError(UserError):
    """The command line changes a key that is in no file.

    Attributes:
        key: The key path.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        hint = "`--cfg job` shows every key; one that its file only leaves out takes a +"
        super().__init__(Problem(f"there is no key {key} to change", "command line", hint))


@contextmanager
def as_user_errors(overrides: Sequence[str]) -> Generator[None]:
    """Turn errors raised in the block into a UserError.

    Args:
        overrides: The command line's overrides.
    """
    try:
        yield
    except MissingMandatoryValue as error:
        key = str(error.full_key or "")
        raise UserError(Problem(f"{key} has no value", hint=f"add {key}=...")) from None
    except yaml.YAMLError as error:
        raise UserError(_yaml_problem(error)) from None
    except (HydraException, OmegaConfBaseException, ValueError) as error:  # metric=null is a ValueError
        raise _user_error(error, overrides) from None
    except BrokenPipeError:
        raise  # the reader of our output has closed it, as with `--cfg job | head`
    except OSError as error:
        what = f"cannot write there: {error.strerror}"
        raise UserError(
            Problem(what, str(error.filename or ""), "run in another folder, or set hydra.run.dir")
        ) from None


def _yaml_problem(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    where = f"{mark.name}:{mark.line + 1}" if mark else ""
    what = getattr(error, "problem", None) or str(error)
    return Problem(f"this is not valid YAML: {what}", where, "quote values that hold any of : { } [ ] # & * ! | > % @")


def _broken_reference(error: InterpolationKeyError) -> Problem:
    """The problem of an interpolation that refers to a missing key."""
    named = re.search(r"Interpolation key '([^']+)'", str(error))
    key = named[1] if named else "a key"
    where = str(error.full_key or "")
    if key.startswith("target.") and where.startswith("judge."):
        what = f"the judge is to be the target's own model, and the target has no {key.removeprefix('target.')}"
        return Problem(
            what, where, "choose a model as the target, such as target=openai generate=true, or another judge"
        )
    return Problem(f"it refers to {key}, which is not there", where, "`--cfg job` shows every key")


def _user_error(error: Exception, overrides: Sequence[str]) -> UserError:
    text = "\n".join(line.rstrip() for line in str(error).strip().splitlines() if line.strip())
    if cause := error.__cause__:
        text = f"{text}\n{str(cause).strip().splitlines()[0]}"
    if absent := re.search(r"Could not override '([^']+)'\.\nTo append", text):
        return AbsentKeyError(absent[1])
    if "Config group override must be" in text:
        given = ", ".join(o for o in overrides if o.endswith("=null")) or "null"
        return UserError(Problem(f"a group is chosen by a name or a list of names, not by {given}", "command line"))
    if variable := re.search(r"Environment variable '([^']+)' not found", text):
        what = f"the environment variable {variable[1]} is not set"
        return UserError(Problem(what, str(getattr(error, "full_key", "") or ""), "set it, or write it into .env"))
    if isinstance(error, InterpolationKeyError):
        return UserError(_broken_reference(error))
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options is not None:
        group, _, name = error.missing_cfg_file.rpartition("/")
        return UserError(Problem(f"there is no {group} {name!r}", f"{group}={name}", did_you_mean(name, error.options)))
    if isinstance(error, OverrideParseException):
        return UserError(Problem(f"cannot read {error.override!r}", "command line", _quoting(error.override or "")))
    return UserError(Problem(text, "command line" if overrides else ""))


def _quoting(override: str) -> str:
    """The hint for an override that Hydra cannot parse."""
    if key := re.search(r"[{,]\s*(['\"])([^'\"]+)\1\s*:", override):
        escaped = re.sub(r"([:=,(){}\[\] ])", r"\\\1", key[2])
        return f"a key in a map takes no quotes; what is special in it takes a backslash: {escaped}"
    quoted = "'KEY=\"VALUE\"', 'KEY=[\"A > B\"]'"
    return f"write KEY=VALUE; a value with any of , = {{ }} [ ] ( ) > takes quotes of its own: {quoted}"
