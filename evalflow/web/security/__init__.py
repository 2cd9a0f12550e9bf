"""Guards of every route and page: no other web page or account may control or read this server.

- `token`: only requests with the server's token are answered.
- `guards.KnownHosts`: the Host header must name this server, which stops DNS rebinding.
- `guards.SameOrigin`: requests from other origins (by Origin and Sec-Fetch-Site) are refused, except links.
- `guards.NoForgery`: changes need JSON or the header `X-Requested-With`, which no foreign form can send.
- `guards.BoundedBodies`, `guards.finished_requests`: requests are bounded in size and time.
- `headers`: browsers do not show the pages in foreign frames, and run only the pages' own scripts.
"""
