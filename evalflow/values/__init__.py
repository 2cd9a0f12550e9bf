"""What data hold: JSON values, cells, texts, contexts and trajectories, read and compared in one way."""
