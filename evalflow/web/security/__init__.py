"""What stands before every route and page: no other web page may drive or read this server.

Another account of this machine reaches the port, and a page of any other origin runs in the same browser:

- `token`: who does not bring the server's token is not answered.
- `hosts`: a name that somebody else points at 127.0.0.1 (DNS rebinding) is refused by the Host header.
- `origins`: what another origin starts is refused by Origin and Sec-Fetch-Site: everything that changes anything, the
  pages' websocket, and also reading, but for following a link here.
- `origins` again: what changes anything carries JSON or the header `X-Requested-With`, neither of which a form of
  another page can send without asking first; and nobody who asks is allowed.
- `bodies`: what is larger than a route could want is not read to its end.
- `headers`: the browser shows a page in no frame of others, and runs no script but the page's own.

Each is plain ASGI, one idea, and knows nothing of the others.
"""
