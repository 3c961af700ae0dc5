"""The name of the server that a request is for; where connections are redirected, mitmproxy knows its address only."""

from ipaddress import ip_address

from mitmproxy import http
from mitmproxy.net.http import url
from mitmproxy.proxy.mode_specs import ReverseMode


def host_of(flow: http.HTTPFlow) -> str:
    """The host of the request's origin, lower-case where it is the client's word.

    Redirected clients (transparent, local, WireGuard; SOCKS and CONNECT of those that resolve names themselves) go to an
    address: the name is what they say in `Host` or `:authority`, else what TLS was asked for (SNI), else there is only the
    address. A reverse proxy goes where its operator said, and an address there is meant.
    """
    host = flow.request.host
    if isinstance(flow.client_conn.proxy_mode, ReverseMode) or not _is_address(host):
        return host
    return _name(flow.request.host_header) or _name(flow.client_conn.sni) or host


def _name(authority: str | None) -> str | None:
    """The host name in `host[:port]`; None where it is an address or no host at all."""
    try:
        host = url.parse_authority(authority or "", check=True)[0]
    except ValueError:
        return None
    host = host.rstrip(".").lower()
    return host if host and not _is_address(host) else None


def _is_address(host: str) -> bool:
    try:
        ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return True
