"""The checks that a case brings along: their parameters, and the metric that each becomes."""
