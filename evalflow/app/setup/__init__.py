"""From settings to the parts of a run, and all that is looked at before the first request."""
