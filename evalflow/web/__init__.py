"""The application: pages and a REST API on this machine, for one person.

`serve` starts it, `application` puts it together, `security` keeps every other web page out. The routes (`api`) and the
pages (`pages`) are thin: what they do is done by `evalflow.app.workspace`, which alone knows the database. How a page
is added stands in `pages/frame.py`.
"""
