"""The version of evalflow."""

__version__ = "0.1.0"
