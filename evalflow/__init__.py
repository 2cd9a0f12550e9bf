"""evalflow: evaluate LLM applications from YAML, with numbers that can be defended."""

__version__ = "0.1.0"
