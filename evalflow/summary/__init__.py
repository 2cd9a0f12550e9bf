"""From the journal to tables: scores, the summary and its files, gates, comparison and calibration."""
