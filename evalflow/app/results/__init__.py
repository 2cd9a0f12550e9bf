"""What follows from a run's journals: scores, summary, gates and reports; derived again as often as wanted."""
