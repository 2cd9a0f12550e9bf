"""The functions behind the pages and the REST API: definitions, runs, scores, files.

All functions raise these errors; docstrings name them only to add details:
NotFoundError: the name does not exist.
TakenError: the name is in use, or the current state forbids the operation.
StaleError: somebody else has changed the object since it was read.
UserError: values are invalid; it lists all problems at once.
"""

from evalflow.errors import Problem, UserError
from evalflow.extras import install_command

try:
    import evalflow.addons.studio.store  # noqa: F401  # pyright: ignore[reportUnusedImport] - reports missing packages of the extra `web`
except ModuleNotFoundError as error:
    what = f"the application needs {error.name}, which is not installed"
    raise UserError(Problem(what, hint=install_command("web"))) from None
