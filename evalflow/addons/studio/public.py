"""The options of `serve --public`: the address in people's browsers, and the ways to sign in there."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from evalflow.errors import Problem, UserError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from evalflow.addons.studio.web.address import Address
    from evalflow.addons.studio.web.security.oidc import OidcSettings
    from evalflow.addons.studio.web.security.proxy import UserHeader

_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}\Z")
_SHORTEST_SECRET = 32
_OIDC = ("oidc_issuer", "oidc_client_id", "oidc_client_secret_env")
_HEADER_OPTIONS = ("user_header", "user_header_secret_env")


def add_public_options(parser: ArgumentParser) -> None:
    """Add them to the parser of `serve`."""
    people = parser.add_argument_group("for several people, who sign in")
    people.add_argument("--public", metavar="https://NAME", help="the address in people's browsers")
    people.add_argument("--tls-cert", metavar="FILE", help="the certificate, with its chain (PEM)")
    people.add_argument("--tls-key", metavar="FILE", help="the certificate's private key (PEM)")
    proxies = "network of the reverse proxy that speaks TLS in place of --tls-cert; may be repeated"
    people.add_argument("--proxy", action="append", metavar="NETWORK", help=proxies)
    metrics = "network that may read /metrics without signing in; may be repeated"
    people.add_argument("--metrics-from", action="append", metavar="NETWORK", help=metrics)
    oidc = parser.add_argument_group("signing in by OpenID Connect, with --public")
    oidc.add_argument("--oidc-issuer", metavar="URL", help="the provider's address, as it writes it itself")
    oidc.add_argument("--oidc-client-id", metavar="ID", help="the server's name at the provider")
    oidc.add_argument("--oidc-client-secret-env", metavar="VAR", help="the environment variable with its secret")
    oidc.add_argument("--oidc-name", metavar="TEXT", help="the provider's name on the button")
    everybody = "give everybody at the provider an account, without a role"
    oidc.add_argument("--oidc-sign-up", action="store_const", const=True, help=everybody)
    factor = "everybody needs a second factor at the provider or the proxy: let owners in who come from there"
    people.add_argument("--second-factor", action="store_const", const=True, help=factor)
    header = parser.add_argument_group("signing in at the reverse proxy, with --proxy")
    header.add_argument("--user-header", metavar="NAME", help="the header that names the account, as Remote-User")
    secret = "the environment variable with what the proxy sends in X-Evalflow-Proxy-Secret"  # noqa: S105 - a help text
    header.add_argument("--user-header-secret-env", metavar="VAR", help=secret)


def expect_no_public_options(options: Namespace) -> None:
    """Check that nothing was asked for that has a meaning for a public server only."""
    flags = [
        "proxy",
        "metrics_from",
        "second_factor",
        "tls_cert",
        "tls_key",
        *_OIDC,
        "oidc_name",
        "oidc_sign_up",
        *_HEADER_OPTIONS,
    ]
    given = [_flag(name) for name in flags if getattr(options, name)]
    if given:
        raise UserError([Problem("this is for a public server", flag, "add --public https://NAME") for flag in given])


def public_settings(options: Namespace) -> tuple[Address, OidcSettings | None]:
    """The address to serve, and the OpenID Connect provider to ask. Raises UserError: all that is missing or wrong."""
    from evalflow.addons.studio.web.address import public_address

    problems: list[Problem] = []
    tls = [file for file in (options.tls_cert, options.tls_key) if file]
    if len(tls) == 1:
        problems.append(Problem("a certificate needs its key", "--tls-cert", "name both: --tls-cert and --tls-key"))
    proxies: list[str] = options.proxy or []
    oidc = _oidc_settings(options, problems)
    header = _user_header(options, problems)
    files = tls if len(tls) == 2 else []
    try:
        address = public_address(options.public, options.host, options.port, files, proxies, options.metrics_from or [])
    except UserError as error:
        raise UserError([*error.problems, *problems]) from None
    if problems or address.public is None:
        raise UserError(problems)
    public = replace(address.public, user_header=header, has_second_factor=bool(options.second_factor))
    return replace(address, public=public), oidc


def _oidc_settings(options: Namespace, problems: list[Problem]) -> OidcSettings | None:
    from evalflow.addons.studio.web.security.oidc import OidcSettings

    if not _expect_together(options, _OIDC, ("oidc_name", "oidc_sign_up"), problems):
        return None
    secret = _secret(options.oidc_client_secret_env, "--oidc-client-secret-env", problems)
    issuer: str = options.oidc_issuer
    name: str = options.oidc_name or urlsplit(issuer).hostname or "your company"
    return OidcSettings(
        issuer, options.oidc_client_id, secret, name, bool(options.oidc_sign_up), bool(options.second_factor)
    )


def _user_header(options: Namespace, problems: list[Problem]) -> UserHeader | None:
    from evalflow.addons.studio.web.security.proxy import UserHeader

    if not _expect_together(options, _HEADER_OPTIONS, (), problems):
        return None
    if not options.proxy:
        problems.append(Problem("only a proxy can be believed", "--user-header", "add --proxy NETWORK"))
    if not _HEADER.match(options.user_header):
        problems.append(Problem(f"{options.user_header!r} is not a header", "--user-header", "such as Remote-User"))
    secret = _secret(options.user_header_secret_env, "--user-header-secret-env", problems)
    if secret and len(secret) < _SHORTEST_SECRET:
        what = f"the secret has less than {_SHORTEST_SECRET} characters"
        problems.append(Problem(what, "--user-header-secret-env", "make one: openssl rand -hex 32"))
    return UserHeader(options.user_header, secret)


def _expect_together(
    options: Namespace, names: tuple[str, ...], more: tuple[str, ...], problems: list[Problem]
) -> bool:
    """Whether all of these options are given. Some of them, or `more` without them, are a problem."""
    missing = [_flag(name) for name in names if not getattr(options, name)]
    given = next((_flag(name) for name in (*names, *more) if getattr(options, name)), None)
    if missing and given:
        problems.append(Problem(f"{given} needs {' and '.join(missing)}", given, "add what is missing"))
    return not missing


def _secret(variable: str, flag: str, problems: list[Problem]) -> str:
    secret = os.environ.get(variable, "")
    if not secret:
        hint = f"set {variable} to the secret, in the environment or in .env; it is never written on the command line"
        problems.append(Problem(f"the environment variable {variable} is empty", flag, hint))
    return secret


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
