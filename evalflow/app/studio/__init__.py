"""What the application does, without pages and REST: definitions, runs, scores, files.

Everywhere, NotFoundError says that there is nothing of a name, TakenError that a name is in use or that a state does
not fit, StaleError that somebody else has changed what was to be changed, and UserError what is wrong with values, with
all problems at once. Docstrings name these where more is to be said.
"""

from evalflow.errors import Problem, UserError

try:
    import evalflow.store  # noqa: F401  # pyright: ignore[reportUnusedImport] - says what is missing of the extra `web`
except ModuleNotFoundError as error:
    what = f"the application needs {error.name}, which is not installed"
    raise UserError(Problem(what, hint="pip install 'evalflow[web]'")) from None
