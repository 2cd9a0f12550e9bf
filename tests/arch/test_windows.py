"""Outside the application, nothing needs what Windows lacks, unless the code handles its absence."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "evalflow"
MODULES = {"crypt", "curses", "fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}


def words(text: str) -> set[str]:
    return set(text.split())


NAMES = {
    "asyncio": {"open_unix_connection", "start_unix_server"},
    "os": words(
        "O_CLOEXEC O_DIRECTORY O_DSYNC O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC WNOHANG chown confstr fchmod fchown fork "
        "forkpty getegid geteuid getgid getgroups getloadavg getpgid getpgrp getpriority getsid getuid killpg lchown "
        "major mkfifo mknod nice openpty pipe2 posix_fadvise posix_fallocate posix_spawn pread preadv pwrite pwritev "
        "register_at_fork sched_getaffinity sched_yield sendfile setgid setpgid setpriority setsid setuid statvfs sync "
        "sysconf tcgetpgrp ttyname uname wait3 wait4 waitid writev"
    ),
    "signal": words(
        "ITIMER_REAL SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGPROF SIGQUIT SIGSTOP SIGTSTP SIGUSR1 "
        "SIGUSR2 SIGXCPU SIGXFSZ alarm pause pthread_kill pthread_sigmask setitimer siginterrupt sigwait"
    ),
    "socket": {"AF_UNIX", "SCM_RIGHTS", "socketpair"},
    "time": {"tzset"},
}
HANDLED = {"ImportError", "ModuleNotFoundError", "AttributeError"}
LOOP = {"add_signal_handler", "add_reader", "add_writer"}  # methods that a loop of Windows does not have


def missing(tree: ast.AST, handled: bool = False) -> Iterator[ast.AST]:
    """The names that Windows lacks and that the code uses as if they were there."""
    match tree:
        case ast.Import(names=names) if not handled and MODULES & {name.name.partition(".")[0] for name in names}:
            yield tree
        case ast.ImportFrom(module=str(module), names=names) if not handled and (
            module in MODULES or NAMES.get(module, set()) & {name.name for name in names}
        ):
            yield tree
        case ast.Attribute(value=value, attr=name) if not handled and (
            name in LOOP or name in NAMES.get(ast.unparse(value), ())
        ):
            yield tree
        case ast.If(test=test) | ast.IfExp(test=test) if asks(test):
            handled = True
        case ast.BoolOp(values=[first, *_]) if asks(first):
            handled = True
        case ast.Try(handlers=handlers):
            if any(handler.type is None or HANDLED & names_in(handler.type) for handler in handlers):
                for part in tree.body:
                    yield from missing(part, handled=True)
                for part in (*handlers, *tree.orelse, *tree.finalbody):
                    yield from missing(part, handled)
                return
        case ast.With(items=items):
            suppressed = {name for item in items for name in names_in(item.context_expr)}
            handled = handled or bool("suppress" in suppressed and (HANDLED | {"NotImplementedError"}) & suppressed)
    for part in ast.iter_child_nodes(tree):
        yield from missing(part, handled)


def names_in(tree: ast.AST) -> set[str]:
    parts = list(ast.walk(tree))
    return {one.id for one in parts if isinstance(one, ast.Name)} | {
        one.attr for one in parts if isinstance(one, ast.Attribute)
    }


def asks(test: ast.AST) -> bool:
    """Whether a condition asks for the system, or for the name."""
    text = ast.unparse(test)
    return any(word in text for word in ("hasattr(os", "hasattr(signal", "sys.platform", "os.name"))


def test_the_core_needs_nothing_that_windows_lacks() -> None:
    found: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE)
        if where.parts[:2] == ("addons", "studio"):  # its worker needs file locks, and says so
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [f"{where}:{getattr(one, 'lineno', 0)}: {ast.unparse(one)}" for one in missing(tree)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("import fcntl", 1),
        ("from os import fork, path", 1),
        ("os.kill(pid, signal.SIGKILL)", 1),
        ("os.open(path, os.O_RDONLY | os.O_NOFOLLOW)", 1),
        ("loop.add_signal_handler(number, stop)", 1),
        ("os.getuid() if hasattr(os, 'getuid') else 0", 0),
        ("try:\n    import fcntl\nexcept ImportError:\n    pass", 0),
        ("try:\n    import fcntl\nexcept OSError:\n    pass", 1),
        ("with suppress(AttributeError, OSError):\n    os.nice(5)", 0),
        ("with suppress(OSError):\n    os.nice(5)", 1),
        ("late or (sys.platform != 'win32' and code == signal.SIGXCPU)", 0),
    ],
)
def test_what_counts_as_handled(code: str, count: int) -> None:
    assert len([*missing(ast.parse(code))]) == count
