"""Send a run's results to other tools: one module for each destination."""
