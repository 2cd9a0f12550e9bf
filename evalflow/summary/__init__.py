"""Turns the journal into tables: scores, the summary and its files, gates, comparison and calibration."""
