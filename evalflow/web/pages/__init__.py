"""The pages, one module each: built from the widgets of `web.ui`; `evalflow.app.studio` does the work."""
