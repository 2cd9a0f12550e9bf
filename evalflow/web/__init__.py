"""The application: pages and a REST API on this machine, for one person.

`serve` starts it and `application` puts it together. `security` refuses what does not come from its own pages. Routes
(`api`) and pages (`pages`) are thin: `evalflow.app.studio` does the work, and alone knows the database.
"""
