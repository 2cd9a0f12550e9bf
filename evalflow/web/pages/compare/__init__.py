"""The page that holds two runs against each other."""

from evalflow.web.pages.compare.compare import add

__all__ = ["add"]
