"""Judges held against people's labels: agreement, corrected means, certificates."""
