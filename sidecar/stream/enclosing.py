"""Whether two exchanges can be one stream after and before a hop. Pure."""

from sidecar.stream.hop import Evidence, call_agrees, reached, texts_agree
from sidecar.stream.summary import Summary, ToolCallSummary

type Place = tuple[int, str]
"""Worker and listener; the listener is empty where both are unknown."""

_AFTER_END = 1_000_000_000  # nanoseconds that the inner answer may go on when the outer one is over
_FORWARDED_WITHIN = 250_000_000  # nanoseconds in which a hop that has nothing to wait for passes a request on


def place(summary: Summary) -> Place:
    """Where it was seen."""
    return summary.worker, summary.listener


def server(summary: Summary) -> tuple[str, int]:
    """Where it went."""
    return summary.server_address, summary.server_port


def elsewhere(one: Place, other: Place) -> bool:
    """Whether two places differ; unknown ones (of capture files) may."""
    return one != other or not one[1]


def encloses(outer: Summary, inner: Summary, evidence: Evidence, tolerance: int = 0) -> bool:
    """Whether two exchanges that share this evidence can be one stream after and before a hop."""
    if not elsewhere(place(outer), place(inner)) or server(outer) == server(inner):
        return False
    if not outer.opened_at < inner.opened_at <= outer.ended_at or not _flows_outwards(outer, inner, tolerance):
        return False
    if evidence == "response_id":
        return True
    agree = _answers_agree(outer, inner)
    if agree is not None:
        return agree
    if outer.worker == inner.worker and outer.client and inner.client and outer.client != inner.client:
        return True  # somebody else sent the inner one: the gateway
    return evidence == "request" and inner.opened_at - (outer.t0 or outer.opened_at) <= _FORWARDED_WITHIN


def _flows_outwards(outer: Summary, inner: Summary, tolerance: int) -> bool:
    """Whether all that came out of the hop had gone in before."""
    came = reached(outer, "first_token")
    if came is not None:
        went = reached(inner, "first_token") or reached(inner, "first_byte")
        if went is None or went > came + tolerance or not _has_output(inner):
            return False
    last = reached(inner, "last_token") or inner.ended_at
    return outer.end != "eof" or last <= outer.ended_at + _AFTER_END


def _has_output(summary: Summary) -> bool:
    return bool(summary.output_chunks or summary.text_chars or summary.tool_calls or summary.reasoning_text)


def _arguments_agree(one: ToolCallSummary, other: ToolCallSummary) -> bool:
    return texts_agree(one.arguments, other.arguments) is not False or call_agrees(one, other)


def _answers_agree(outer: Summary, inner: Summary) -> bool | None:
    """Whether the answers begin alike; None where there is too little of one of them to say."""
    for one, other in ((outer.text, inner.text), (outer.reasoning_text, inner.reasoning_text)):
        agree = texts_agree(one, other)
        if agree is not None:
            return agree
    if outer.tool_calls and inner.tool_calls:
        pairs = zip(outer.tool_calls, inner.tool_calls, strict=False)
        return all(one.name == other.name and _arguments_agree(one, other) for one, other in pairs)
    return None
