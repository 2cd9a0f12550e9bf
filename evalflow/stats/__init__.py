"""Intervals and figures: pure functions of arrays and counts."""
