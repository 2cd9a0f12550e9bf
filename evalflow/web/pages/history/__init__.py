"""The page of a metric from run to run."""

from evalflow.web.pages.history.history import add

__all__ = ["add"]
