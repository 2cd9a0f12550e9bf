"""The pages, one module each: built from the widgets of `web.ui`; `evalflow.addons.studio.work` does the work."""
