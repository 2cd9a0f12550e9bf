"""What people define and what runs found, kept in a database: the one door of the application.

Everything takes a `Workspace` first, and a mistake of its caller is a UserError.
"""

from evalflow.app.workspace.space import NotFoundError, StaleError, TakenError, Workspace, open_workspace

__all__ = ["NotFoundError", "StaleError", "TakenError", "Workspace", "open_workspace"]
