"""What the application does, without pages and REST: definitions, runs, scores, files."""

from evalflow.errors import Problem, UserError

try:
    import evalflow.store  # noqa: F401  # pyright: ignore[reportUnusedImport] - says what is missing of the extra `web`
except ModuleNotFoundError as error:
    what = f"the application needs {error.name}, which is not installed"
    raise UserError(Problem(what, hint="pip install 'evalflow[web]'")) from None
