"""One colour per outcome, milestone, phase and verdict, the same on every dashboard; readable on dark and on light."""

OUTCOMES = {
    "complete": "green",
    "no_terminator": "yellow",
    "not_streamed": "semi-dark-yellow",
    "truncated": "orange",
    "empty": "semi-dark-orange",
    "error_event": "purple",
    "http_error": "semi-dark-purple",
    "upstream_reset": "red",
    "upstream_failed": "dark-red",
    "client_disconnect": "blue",
    "unparsed": "#888888",
    "lost": "#555555",
}
MILESTONES = {
    "headers": "blue",
    "first_byte": "purple",
    "first_token": "green",
    "first_visible_token": "orange",
    "first_audio": "yellow",
}
PHASES = {
    "waiting_headers": "red",
    "before_first_token": "orange",
    "mid_stream": "green",
    "keepalive_only": "purple",
    "after_finish": "blue",
}
VERDICTS = {"none": "green", "coalesced": "yellow", "buffered": "red", "inconclusive": "#888888"}
USAGE = {"reported": "green", "partial": "yellow", "missing": "red", "not_requested": "#888888"}
TOOL_CALLS = {"valid": "green", "invalid_arguments": "red", "incomplete": "orange"}
