"""Nothing secret leaves the proxy process in a head."""

import pytest

from sidecar.capture.redaction import REDACTED, redact_headers, redact_target

CREDENTIALS = [
    "Authorization",
    "Proxy-Authorization",
    "api-key",
    "x-api-key",
    "X-Goog-Api-Key",
    "Cookie",
    "Set-Cookie",
    "x-amz-security-token",
    "cf-aig-authorization",
    "openai-organization",
    "Sec-WebSocket-Protocol",
    "x-anything-else",
]


@pytest.mark.parametrize("name", CREDENTIALS)
def test_a_header_that_nobody_allowed_keeps_only_its_name(name: str) -> None:
    kept = redact_headers([(name.encode(), b"canary-secret"), (b"Content-Type", b"text/event-stream")])
    assert kept == [(name.lower(), REDACTED), ("content-type", "text/event-stream")]


def test_an_operator_may_allow_more() -> None:
    assert redact_headers([(b"X-Team", b"blue")], frozenset({"x-team"})) == [("x-team", "blue")]


@pytest.mark.parametrize(
    ("target", "redacted"),
    [
        ("/v1/chat/completions", "/v1/chat/completions"),
        (
            "/v1beta/models/m:streamGenerateContent?alt=sse&key=canary",
            f"/v1beta/models/m:streamGenerateContent?alt=sse&key={REDACTED}",
        ),
        ("/x?access_token=canary&flag&stream=true", f"/x?access_token={REDACTED}&flag&stream=true"),
        ("/x?api-version=2024-10-21#canary", "/x?api-version=2024-10-21"),
        ("/x?a=b?canary=1", f"/x?a={REDACTED}"),
    ],
)
def test_a_query_keeps_names_and_the_values_that_matter(target: str, redacted: str) -> None:
    assert redact_target(target) == redacted
    assert "canary" not in redacted
