"""One exchange from its records to its summary: the pipeline that the live analyzer and `inspect` share."""

from hashlib import blake2b

import msgspec

from sidecar.body import Body, is_clean
from sidecar.capture.records import Chunk, Ended, Lost, Opened, RequestBody, RequestSent, ResponseHead
from sidecar.capture.tap import REQUEST_COPY_LIMIT
from sidecar.dialects import socket_table, table
from sidecar.dialects.base import Dialect
from sidecar.dialects.request import Head, Request, read_request
from sidecar.dialects.request_content import RequestContent, read_content
from sidecar.dialects.signals import Annotation, Malformed
from sidecar.dialects.usage_headers import usage_of_headers
from sidecar.documents import Kind, error_in, first_value, is_html, kind_of, loads
from sidecar.encoding import content_decoder
from sidecar.framing.frame import Frame
from sidecar.framing.sse import SseDecoder
from sidecar.headers import OF_REQUEST, OF_RESPONSE, lower, only
from sidecar.run import RUN, Run
from sidecar.stream.outcome import EndKind
from sidecar.stream.phases import Phase
from sidecar.stream.stream import Stream, kept_error
from sidecar.thresholds import Limits

_DETOUR = 8  # reads after one that the shortcut did not take
_CONFIRM_WITHIN = 8  # events looked at before the request's word on the dialect is final


_UNENDED = {"sse": "sse_missing_final_blank_line", "ndjson": "ndjson_missing_final_newline"}
"""By framing: the habit of a last unit that is whole but for the ending that its framing asks for."""


class Exchange:
    """State of one exchange. Methods take its records in their order; `summarise` reads the result, once it is closed.
    Who reads of an open one calls `settle` before.

    `keep_content`: messages and tools of the request are kept, within bounds, for an operator who captures content.
    `salt`: the key under which the request body is hashed.
    """

    __slots__ = (
        "__weakref__",  # exporters remember what is in flight
        "_byte_at",
        "_detour",
        "_digest",
        "_digested",
        "_frame_detour",
        "_keep_content",
        "_request_body",
        "_run",
        "_unconfirmed",
        "body",
        "body_digest",
        "byte_silence",
        "check_at",
        "dialect",
        "document",
        "end",
        "end_error",
        "end_phase",
        "ended_at",
        "first_byte_at",
        "head",
        "headers_at",
        "labels",
        "limits",
        "lost",
        "opened",
        "parsed",
        "request",
        "request_content",
        "response_headers",
        "row",
        "socket",
        "status",
        "stream",
        "t0",
        "t0_source",
        "timed",
    )

    def __init__(self, opened: Opened, limits: Limits, *, keep_content: bool = False, salt: bytes = b"") -> None:
        self.opened = msgspec.structs.replace(opened, headers=[])
        self.limits = limits
        self.head = Head.of(
            opened.method, opened.host, opened.port, opened.target, only(OF_REQUEST, lower(opened.headers))
        )
        self.row = socket_table.row_of(self.head) if socket_table.is_upgrade(self.head) else table.pick(self.head)
        self.request: Request = Request(self.head)
        self.t0: int | None = None
        self.t0_source: str | None = None
        """The message of a WebSocket that t0 stands for."""
        self.socket: str | None = None
        """Id of the WebSocket in which the exchange is one response; None for a request of its own."""
        self.status: int | None = None
        self.headers_at: int | None = None
        self.response_headers: dict[str, str] = {}
        self.first_byte_at: int | None = None
        self.check_at = 0
        """Before then no clock tick needs to look at the exchange."""
        self.labels: tuple[object, tuple[str, ...]] | None = None
        """Label values of the live gauges, with what they were made of."""
        self.ended_at: int | None = None
        self.end_phase: Phase | None = None
        """The phase in which the exchange ended."""
        self.byte_silence = 0
        """Longest time without any byte of the response, nanoseconds; what idle time-outs on the way go by."""
        self._byte_at = opened.at
        self.end: EndKind = "open"
        self.end_error = ""
        self.lost: Lost | None = None
        self.stream = Stream(text_limit=limits.text_chars)
        self.stream.progress.start(opened.at)
        self.body: Body | None = None
        self.timed = True
        """Whether the reads are those of the wire; False for what was piped into a file without its timing."""
        self.parsed = True
        """Whether the body could be read by a dialect."""
        self.document: Kind = ""
        """What a body that is one document is."""
        self.dialect: Dialect | None = None
        self.request_content: RequestContent | None = None
        self._keep_content = keep_content
        self.body_digest = ""
        """Salted hash of the complete request body, to tell whether another one is equal; never leaves the process."""
        self._digest: blake2b | None = blake2b(key=salt, digest_size=16)
        self._digested = 0
        self._request_body = bytearray()
        self._unconfirmed = _CONFIRM_WITHIN
        self._run: Run | None = None
        self._detour = self._frame_detour = 0
        """Reads, and frames, that take the long way before the shortcut is tried again."""

    @property
    def dialect_name(self) -> str:
        return self.row.name

    @property
    def asked_stream(self) -> bool:
        """Whether the request asked for a stream, or said nothing where its dialect streams by default."""
        return self.request.asked_stream or (self.row.streams_by_default and self.request.stream is not False)

    @property
    def is_error_status(self) -> bool:
        return self.status is not None and self.status >= 400

    def request_body(self, record: RequestBody) -> None:
        """A piece of the request body; what goes over the bound is dropped."""
        if self._digest is not None:
            self._digest.update(record.data)
        self._digested += len(record.data)
        room = self.limits.request_bytes - len(self._request_body)
        if room > 0:
            self._request_body += record.data[:room]

    def request_sent(self, record: RequestSent) -> None:
        """The request is out: t0."""
        self.t0 = record.at
        self._byte_at = record.at
        if self._digest is not None and 0 < self._digested < REQUEST_COPY_LIMIT:  # of a longer one the rest is unknown
            self.body_digest = self._digest.hexdigest()
        self._digest = None
        self.stream.progress.start(record.at)
        self._read_request()

    def _read_request(self) -> None:
        body = bytes(self._request_body)
        self._request_body = bytearray()
        coding = content_decoder(self.head.headers.get("content-encoding", ""))
        if coding is not None:
            body = coding.feed(body) + coding.close()
        self.request = read_request(self.head, body)
        if self._keep_content:
            self.request_content = read_content(body, self.limits.text_chars)

    def response_head(self, record: ResponseHead) -> None:
        """The response head: status, and how the body is coded and framed."""
        if self._request_body:
            self._read_request()  # answered before the request was complete
        self.status = record.status
        self.headers_at = record.at
        self._bytes_came(record.at)
        headers = lower(record.headers)
        self.response_headers = only(OF_RESPONSE, headers)
        self.stream.progress.head(record.at)
        counted = None if self.is_error_status else usage_of_headers(headers)
        if counted is not None:
            self.stream.usage_before(counted)
        self.body = Body(
            content_type=self.response_headers.get("content-type", ""),
            content_encoding=self.response_headers.get("content-encoding", ""),
            asked_stream=self.asked_stream,
            whole=self.is_error_status,
            lines=self.row.lines,
            limit=self.limits.event_bytes,
        )

    def _bytes_came(self, at: int) -> None:
        if at - self._byte_at > self.byte_silence:
            self.byte_silence = at - self._byte_at
        self._byte_at = at

    def chunk(self, record: Chunk) -> None:
        """One read of the body."""
        data, at = record.data, record.at
        run = self._run
        if run is not None:
            held = run.take(data, at)
            if held:
                if held >= RUN:
                    self.settle()
                return
            self.settle()
            self._run = None
        body = self.body
        if body is not None and not self._detour and self._begins(body, data, at):
            return
        self._bytes_came(at)
        if self.first_byte_at is None:
            self.first_byte_at = at
        if body is None:
            return
        self._detour -= self._detour > 0
        frames = body.feed(data, at)
        for frame in frames:
            self._frame(frame)
        if body.framing_notes.array_closed:
            self.stream.array_closed(at)
        if not frames and data and body.streams and not body.unfinished:
            self.stream.keep_alive("blank", at, 0)

    def _begins(self, body: Body, data: bytes, at: int) -> bool:
        """Whether a read begins a run: the shortcut past every stage for the events in the middle of a stream, one a
        read, that bring a piece of output and nothing else. Tested equal to the long way, which takes all the others."""
        dialect = self.dialect
        limit = body.single_limit
        if dialect is None or self._unconfirmed or limit is None:
            return False
        for plain in dialect.plains:
            if self.stream.is_amid(plain.kind):
                run = Run(plain, dialect, limit)
                if run.take(data, at):
                    self._run = run
                    return True
        self._detour = _DETOUR  # what is read twice, is so now and then
        return False

    def settle(self) -> None:
        """Bring `stream`, `body` and the rest up to date with all that was read."""
        run = self._run
        if run is not None and run.ats and self.body is not None:
            first, last, longest = run.tell(self.body, self.stream)
            self._bytes_came(first)
            self.byte_silence = max(self.byte_silence, longest)
            self._byte_at = last

    def ended(self, record: Ended) -> None:
        """The exchange is over, in whatever way."""
        self.end = record.kind
        self.end_error = record.error
        self.close(record.at)

    def close(self, at: int) -> None:
        """No more records come."""
        self.settle()
        self._run = None
        self.ended_at = at
        self.end_phase = self.stream.progress.phase()
        self._bytes_came(at)
        self.stream.progress.end(at)
        if self.body is not None:
            rest = self.body.close()
            self.stream.whole = self.body.is_whole
            for frame in rest:
                self._frame(frame)
            if self.body.framing_notes.array_closed:
                self.stream.array_closed(self.stream.last_event_at or at)
        if self.is_error_status and self.stream.error is None:
            self.stream.error = kept_error(error_in(b"", self.status or 0))  # without a body the status has to speak
        if self.dialect is not None:
            self.stream.take_habits(self.dialect.conclude())

    def _frame(self, frame: Frame) -> None:
        stream = self.stream
        if frame.comments:
            stream.keep_alive("comment", frame.at, frame.comments)
        if stream.whole:
            self._whole(frame)
            return
        data = frame.data
        cut = frame.size > 0 and not frame.complete  # even where it was over the bound, and nothing of it is kept
        if data is None and not (frame.stray or frame.torn or cut) and frame.headers is None:
            return
        if frame.complete:
            self._interpret(frame)
        elif self.end != "open":
            self._pending(frame)

    def _interpret(self, frame: Frame) -> None:
        data = frame.data
        if self._unconfirmed and data:
            self._confirm(data, frame.event)
        if self.dialect is None:
            self.dialect = self.row.dialect(self.request)
        if self._takes(self.dialect, frame):
            return
        signals = self.dialect.interpret(frame)
        if data or signals:
            self.stream.take(signals, frame.at)

    def _takes(self, dialect: Dialect, frame: Frame) -> bool:
        """Whether a frame is a plain event: the part of the shortcut that is left where a read has several, or is coded."""
        if self._frame_detour:
            self._frame_detour -= 1
            return False
        data, stream = frame.data, self.stream
        if not data or self._unconfirmed or frame.comments or frame.stray or frame.lines > 1 or not frame.complete:
            return False
        for plain in dialect.plains:
            if plain.name == frame.event and stream.is_amid(plain.kind) and is_clean(data):
                text = plain.text(dialect, data)
                if text:
                    stream.take_run(plain.kind, (text,), (frame.at,), (), plain.usage(dialect))
                    return True
                self._frame_detour = _DETOUR
        return False

    def _pending(self, frame: Frame) -> None:
        """What was pending at the end: used after a clean end, if it is whole; else it was cut off."""
        assert self.body is not None
        assert self.body.framing is not None
        habit = _UNENDED.get(self.body.framing.name)
        dialect = self.dialect or self.row.dialect(self.request)
        if habit is None:
            cut = "truncated_frame" if self.body.framing.name == "eventstream" else "truncated_json_event"
            self.stream.take_habits([Malformed(cut)])
            if frame.event in dialect.terminators:
                self.stream.take_habits([Annotation("terminator_truncated")])
        elif self.end == "eof" and (frame.data or frame.stray):
            self._interpret(frame)
            if not self.stream.cut_off:
                self.stream.notes |= {habit}
        else:
            self.stream.take_habits(dialect.cut_off(frame))

    def _confirm(self, data: bytes, event: str) -> None:
        self._unconfirmed -= 1
        row, settled = table.confirm(self.row, loads(data), event)
        if settled:
            self._unconfirmed = 0
        if row is not self.row:
            self.row = row
            self.dialect = None

    def _whole(self, frame: Frame) -> None:
        """A whole body: of an error, or the answer to a request that was not streamed."""
        data = frame.data
        self.document = kind_of(data or b"", self.response_headers)
        if self.status is not None and self.is_error_status:
            self.stream.error = kept_error(error_in(data or b"", self.status))
            self._note_html(data)
            return
        value, rest = (None, 0) if data is None else first_value(data)
        if self.row.opaque and not isinstance(value, dict) and not is_html(data or b"", self.response_headers):
            self.dialect = self.row.dialect(self.request)  # audio or plain text: timed, and nothing read from it
            return
        if data is None:
            self.parsed = False
            return
        if isinstance(value, dict):
            self.row, _ = table.confirm(self.row, value, "")
        if value is None or self.row is table.UNKNOWN:
            self.parsed = False
            self._note_html(data)
            return
        self.dialect = self.row.dialect(self.request)
        self.stream.take(self.dialect.interpret_whole(msgspec.structs.replace(frame, data=data[:rest])), frame.at)
        if data[rest:].lstrip().startswith((b"data:", b"event:", b":")):
            self._mixed(data[rest:].lstrip(), frame.at)

    def _note_html(self, data: bytes | None) -> None:
        if data and is_html(data, self.response_headers):
            self.stream.notes |= {"error_html_body"}

    def _mixed(self, data: bytes, at: int) -> None:
        """Events behind a whole JSON body."""
        self.stream.notes |= {"mixed_json_and_sse_body"}
        self.stream.whole = False
        decoder = SseDecoder()
        for frame in (*decoder.feed(data, at), *decoder.close()):
            self._frame(frame)

    def give_up(self) -> None:
        """No further record is read, and what was read last is not, either."""
        self.body = self._run = None

    def mark_lost(self, record: Lost) -> None:
        """Telemetry was dropped on the way here."""
        before = self.lost
        self.lost = Lost(
            record.stream,
            record.at,
            record.records + (before.records if before else 0),
            record.bytes + (before.bytes if before else 0),
        )
