"""The pages: one module each, which builds what is seen and calls `evalflow.app.workspace` for all else."""
