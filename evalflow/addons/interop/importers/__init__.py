"""Import of other tools' files as evalflow's config groups in YAML, with the prompts and data that they need."""
