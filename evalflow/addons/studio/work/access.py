"""Access control: the acting person and their rights. Every studio function that takes a workspace declares a right."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Concatenate, Literal, ParamSpec, Protocol, TypeVar, runtime_checkable

from evalflow.errors import Problem, UserError

Role = Literal["viewer", "annotator", "editor", "admin"]
Right = Literal["account", "label", "read", "try", "edit", "admin", "own"]
"""The right that a function needs: account (signed in), label (label assigned answers), read, try (compute something
that is not saved), edit (define, run, review, calibrate), admin (delete runs, manage members and tokens of the
project), own (administer the server)."""
ROLES: Mapping[Role, frozenset[Right]] = {
    "viewer": frozenset({"account", "read"}),
    "annotator": frozenset({"account", "label"}),
    "editor": frozenset({"account", "label", "read", "try", "edit"}),
    "admin": frozenset({"account", "label", "read", "try", "edit", "admin"}),
}
"""The rights of each role in its project. The server's owner has all rights everywhere."""


_OWNER: frozenset[Right] = frozenset({*ROLES["admin"], "own"})


class SignedOutError(UserError):
    """Nobody is signed in, or the session has ended."""

    def __init__(self) -> None:
        super().__init__(Problem("you are not signed in", hint="sign in, or send a token that is valid"))


class ForbiddenError(UserError):
    """The person is signed in but lacks a right."""


class UnconfirmedError(ForbiddenError):
    """The action needs a more recent sign-in."""

    def __init__(self, why: str = "this needs a fresh proof that it is you") -> None:
        super().__init__(Problem(why, hint="use your passkey again; if you have none, sign out and in again"))


@dataclass(frozen=True, slots=True)
class Actor:
    """A person who uses the workspace, directly or by a token.

    Attributes:
        user: The id of the user's row; None for the local person and for a worker.
        name: Unique; recorded with changes.
        is_owner: Whether they own the server.
        roles: By project id.
        address: The client's address, for the audit.
        is_program: Whether a token acts for the person.
    """

    user: int | None
    name: str
    is_owner: bool = False
    roles: Mapping[int, Role] = field(default_factory=dict[int, Role])
    address: str = ""
    is_program: bool = False

    @property
    def queue(self) -> str:
        """The key of the turns: a person's pages share one, all their tokens another."""
        return f"programs of {self.name}" if self.is_program else self.name

    def rights(self, project: int) -> frozenset[Right]:
        """The person's rights in a project."""
        if self.is_owner:
            return _OWNER
        role = self.roles.get(project)
        return ROLES[role] if role else frozenset({"account"})


LOCAL = Actor(None, "local", is_owner=True)
"""The person who uses the application on their own machine, without accounts."""


def local_person() -> Actor:
    """`LOCAL`."""
    return LOCAL


def nobody() -> Actor:
    """Raise SignedOutError: nobody has signed in."""
    raise SignedOutError


class GuardedSpace(Protocol):
    """The attributes of a workspace that a check of rights needs."""

    @property
    def identify(self) -> Callable[[], Actor]: ...

    @property
    def project(self) -> str: ...

    @property
    def project_id(self) -> int: ...


@runtime_checkable
class Confirmable(Protocol):
    """An `identify` that knows whether its person has authenticated recently."""

    def is_confirmed(self) -> bool: ...


_RIGHT = "_right"
S = TypeVar("S", bound=GuardedSpace)
P = ParamSpec("P")
R = TypeVar("R")
Door = Callable[Concatenate[S, P], R]


def requires(right: Right, *, confirmed: bool = False) -> Callable[[Door[S, P, R]], Door[S, P, R]]:
    """Decorate a function: it runs only if the acting person has the right in the workspace's project.

    `confirmed`: they must also have authenticated in the last few minutes. This protects actions from a stolen session.

    Raises, when called:
        SignedOutError: Nobody is signed in.
        ForbiddenError: The person's role lacks the right.
        UnconfirmedError: They authenticated too long ago.
    """

    def decorate(work: Door[S, P, R]) -> Door[S, P, R]:
        @functools.wraps(work)
        def checked(space: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            expect_right(space, right)
            if confirmed:
                expect_confirmed(space)
            return work(space, *args, **kwargs)

        setattr(checked, _RIGHT, right)
        return checked

    return decorate


def open_to_all(work: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that anybody may call, such as to sign in."""
    setattr(work, _RIGHT, "none")
    return work


def expect_right(space: GuardedSpace, right: Right) -> None:
    """Check that the acting person has a right; see `requires`."""
    if not may(space, right):
        raise ForbiddenError(Problem(_refusal(right, space.project), hint=_HINTS.get(right, _HINTS["read"])))


def expect_confirmed(space: GuardedSpace) -> None:
    """Raise UnconfirmedError unless the person has authenticated in the last few minutes."""
    identify = space.identify
    if isinstance(identify, Confirmable) and not identify.is_confirmed():
        raise UnconfirmedError


def may(space: GuardedSpace, right: Right) -> bool:
    """Whether the acting person has a right, so that a page shows only what they can do."""
    return right in space.identify().rights(space.project_id)


def right_of(work: Callable[..., object]) -> Right | Literal["none"] | None:
    """The right that a studio function declares; "none" if it is open to all, None without a declaration."""
    return getattr(work, _RIGHT, None)


_HINTS: Mapping[Right, str] = {
    "read": "ask an admin of the project for a role that may, such as viewer",
    "try": "ask an admin of the project for the role editor",
    "edit": "ask an admin of the project for the role editor",
    "admin": "ask an admin of the project",
    "own": "ask the owner of this server",
}


def _refusal(right: Right, project: str) -> str:
    if right == "own":
        return "only the owner of this server may do this"
    verbs = {"read": "see", "label": "label answers in", "try": "try anything in", "edit": "change", "admin": "manage"}
    return f"you may not {verbs[right]} project {project!r}"
