"""Statistics as pure functions of arrays and counts: intervals, comparison, agreement, corrected means."""
