"""The database of the application: definitions, runs and scores, in SQLite or PostgreSQL."""

from evalflow.store.database import Database, open_database

__all__ = ["Database", "open_database"]
