"""Nothing secret leaves the proxy process in a head."""

import pytest

from sidecar.capture.redaction import REDACTED, redact_headers, redact_target, without_quotes

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


@pytest.mark.parametrize(
    "quoted", [b"x", b"it's", b'say "x"', b"both ' and \"", b"a\\", b"\\' \x00\xff\n", b"", b"key=" * 100], ids=repr
)
def test_messages_lose_the_bytes_that_they_quote(quoted: bytes) -> None:
    for form in (quoted, [quoted, quoted]):
        cleaned = without_quotes(f"127.0.0.1:1: Bad HTTP request line: {form!r} (and more)")
        assert cleaned.startswith("127.0.0.1:1: Bad HTTP request line: ")
        assert cleaned.endswith(" (and more)")
        assert cleaned.count(REDACTED) == (2 if isinstance(form, list) else 1)
        assert "key" not in cleaned
    assert without_quotes(f"cut: {b'secret' * 9!r}"[:20]) == f"cut: {REDACTED}"
    assert (
        without_quotes(f"invalid content-length header: {'secret'!r}") == f"invalid content-length header: {REDACTED}"
    )


@pytest.mark.parametrize(
    "message", ["[Errno 111] Connect call failed ('127.0.0.1', 9)", "it's b or 'not' b\"", "stream reset by client"]
)
def test_other_messages_stay_as_they_are(message: str) -> None:
    assert without_quotes(message) in (message, message.replace('b"', REDACTED))
