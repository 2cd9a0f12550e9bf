"""Compose a run's configuration with Hydra and validate it with pydantic."""
