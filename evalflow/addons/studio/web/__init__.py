"""The application: pages and a REST API on this machine, for one person.

`serve` starts it and `application` assembles it. `security` refuses requests from other web pages and accounts. Routes
(`api`) and pages (`pages`) are thin: `evalflow.addons.studio.work` does the work, and only it accesses the database.
"""
