"""Import of promptfoo's configurations and results."""
