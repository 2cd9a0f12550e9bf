"""Composing a run's configuration with Hydra, and validating it with pydantic."""
