"""Read and compare the values in data: JSON values, cells, texts, contexts and trajectories."""
