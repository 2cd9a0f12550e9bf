"""The pages: one module each, which builds what is seen and calls `evalflow.app.studio.space` for all else."""
