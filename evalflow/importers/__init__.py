"""Other tools' files as evalflow's own: YAML of config groups, and what they need beside it."""
