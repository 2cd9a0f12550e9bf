"""The database of the application: definitions, runs and scores, in SQLite or PostgreSQL."""

from evalflow.addons.studio.store.database import DEFAULT_PROJECT, Database, open_database

__all__ = ["DEFAULT_PROJECT", "Database", "open_database"]
