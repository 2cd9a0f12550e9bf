"""What people define and what runs found, in a database: SQLite in a file, or PostgreSQL by its URL."""

from evalflow.store.database import Database, open_database

__all__ = ["Database", "open_database"]
