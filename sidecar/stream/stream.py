"""Signals in, the state of one stream out: a reducer without a clock, driven by the arrival times of the reads."""

from collections.abc import Iterable, Sequence

from sidecar.dialects.plain import PlainKind
from sidecar.dialects.signals import (
    Annotation,
    Boundary,
    Content,
    Finish,
    Identity,
    InBandError,
    KeepAlive,
    Malformed,
    Role,
    Signal,
    Terminator,
    ToolCall,
    Usage,
    WholeText,
)
from sidecar.stream.gaps import Gaps
from sidecar.stream.phases import Progress
from sidecar.stream.text import CHOICES_KEPT, MESSAGE_LIMIT, TextLog, has_lone_edge, kept
from sidecar.stream.tools import ToolCalls
from sidecar.stream.usage import UsageLedger

DEFAULT_TEXT_LIMIT = 1024
_VISIBLE = ("text", "refusal", "transcript")
"""Kinds of output that a person reads as the answer: they start the clock of the first visible token."""

_NONE: frozenset[str] = frozenset()
"""Shared: each empty set of its own would take 216 bytes of a stream in flight."""

_BESIDE_DATA = frozenset({"bare_done_line", "foreign_terminator", "sse_unknown_field"})
"""Habits of lines that are no data event of the dialect."""


class Stream:
    """One stream. All times are nanoseconds of the proxy's monotonic clock.

    `whole` says that the body is one document and no stream: nothing in it is timed as output.
    """

    __slots__ = (
        "_events",
        "_events_with_finish",
        "_heartbeat_at",
        "_heartbeat_gaps",
        "_reasoning",
        "_resumed_at",
        "_text_limit",
        "_tools",
        "_transcript",
        "cut_off",
        "error",
        "error_at",
        "failed_finish",
        "finish",
        "first_audio_at",
        "first_event_at",
        "first_output_at",
        "first_visible_at",
        "gaps",
        "identity",
        "keepalives",
        "kinds",
        "last_event_at",
        "last_output_at",
        "notes",
        "output_chunks",
        "output_size",
        "progress",
        "terminator",
        "terminator_at",
        "text",
        "text_choices",
        "usage",
        "waited",
        "whole",
    )

    def __init__(self, *, text_limit: int = DEFAULT_TEXT_LIMIT) -> None:
        self.whole = False
        self.notes = _NONE
        self.text = TextLog(text_limit)
        self._text_limit = text_limit
        self._reasoning: TextLog | None = None  # these are made when they are asked for: many a stream has none
        self._transcript: TextLog | None = None
        self._tools: ToolCalls | None = None
        self._heartbeat_gaps: Gaps | None = None
        self.usage = UsageLedger()
        self.gaps = Gaps()
        self.progress = Progress()
        self.identity = Identity()
        self.finish: dict[int, str] = {}
        self.error: InBandError | None = None
        self.failed_finish: str | None = None
        self.terminator: str | None = None
        self.cut_off = False
        self.keepalives: dict[str, int] = {}
        self.output_chunks = 0
        self.output_size = 0
        self.kinds: dict[str, int] = {}
        self.first_event_at: int | None = None
        self.first_output_at: int | None = None
        self.first_visible_at: int | None = None
        self.first_audio_at: int | None = None
        self.last_output_at: int | None = None
        self.last_event_at: int | None = None
        self.terminator_at: int | None = None
        self.error_at: int | None = None
        self.text_choices: tuple[int, ...] = ()
        self.waited = 0
        """Nanoseconds between outputs that the client took and not the server."""
        self._resumed_at = 0
        self._heartbeat_at: int | None = None
        self._events = 0
        self._events_with_finish = 0

    @property
    def reasoning(self) -> TextLog:
        """The text of its reasoning."""
        if self._reasoning is None:
            self._reasoning = TextLog(self._text_limit)
        return self._reasoning

    @property
    def transcript(self) -> TextLog:
        """The text of what is spoken."""
        if self._transcript is None:
            self._transcript = TextLog(self._text_limit)
        return self._transcript

    @property
    def tools(self) -> ToolCalls:
        """Its tool calls."""
        if self._tools is None:
            self._tools = ToolCalls()
        return self._tools

    @property
    def heartbeat_gaps(self) -> Gaps:
        """Between keep-alives."""
        if self._heartbeat_gaps is None:
            self._heartbeat_gaps = Gaps()
        return self._heartbeat_gaps

    @property
    def heartbeats(self) -> int:
        """Comments, pings with data and JSON heartbeats."""
        return sum(count for kind, count in self.keepalives.items() if kind != "blank")

    def keep_alive(self, kind: str, at: int, count: int = 1) -> None:
        """Bytes that are no event came: comments or blank lines."""
        self.keepalives[kind] = self.keepalives.get(kind, 0) + count
        if kind != "blank":
            if self._heartbeat_at is not None:
                self.heartbeat_gaps.add(at - self._heartbeat_at)
            self._heartbeat_at = at
        self.progress.keep_alive(at)

    def usage_before(self, usage: Usage) -> None:
        """Counts that came before the body."""
        self.usage.add(usage, finished=False, finishes=False)
        self.notes |= {"usage_in_headers"}

    def array_closed(self, at: int) -> None:
        """The JSON array that was streamed is closed: the framing's own word that nothing follows."""
        if self.terminator is None:
            self._terminator(Terminator("array_close"), at, after_error=False)

    def take(self, signals: Sequence[Signal], at: int) -> None:
        """The signals of one frame that carried a payload; none where the dialect has nothing to say of it."""
        if self.first_event_at is None and not self.whole:
            self.first_event_at = at
        event: list[Signal] = []
        for signal in signals:
            if signal.__class__ is Boundary:
                self._event(event, at)
                event = []
            else:
                event.append(signal)
        self._event(event, at)

    def is_amid(self, kind: PlainKind) -> bool:
        """Whether more output of this kind in choice 0 would be no news: all that `take_run` asks for."""
        return not (
            self.finish
            or self.terminator is not None
            or self.error is not None
            or self.failed_finish is not None
            or self.whole
            or self.last_output_at is None
            or kind not in self.kinds
            or (kind == "text" and (self.first_visible_at is None or 0 not in self.text_choices))
        )

    def take_run(
        self, kind: PlainKind, texts: Sequence[str], ats: Sequence[int], gaps: Sequence[int], usage: Usage | None
    ) -> None:
        """Events that are nothing but a piece of output in choice 0, where the stream `is_amid`: the same as `take` of
        their signals one by one. `gaps` are the nanoseconds from each of them to the next;
        `usage`: what the last of them states, where all state counts that grow."""
        size = (self.text if kind == "text" else self.reasoning).extend(texts)
        self.output_size += size
        self.kinds[kind] += size
        self._events += len(ats)
        self.output_chunks += len(ats)
        for _ in ats[:2]:  # said twice is said as often as any
            self.usage.goes_on()
            if usage is not None:
                self.usage.add(usage, finished=False, finishes=False)
        self._gap(ats[0])
        self.gaps.extend(gaps)
        self.last_event_at = self.last_output_at = ats[-1]
        self.progress.run(ats, max(gaps, default=0))

    def resume(self, at: int) -> None:
        """The client did what the stream waited for (ran a tool): the server's time goes on from here."""
        self._resumed_at = at
        self.progress.resume(at)

    def take_habits(self, signals: Iterable[Signal]) -> None:
        """Habits that stand in no event: what a cut-off unit shows, and what shows only at the end."""
        for signal in signals:
            if isinstance(signal, Annotation):
                self.notes |= {signal.name}
            elif isinstance(signal, Malformed):
                self._malformed(signal)

    def _malformed(self, signal: Malformed) -> None:
        self.notes |= {signal.name}
        self.cut_off = self.cut_off or signal.name in ("truncated_json_event", "truncated_frame")

    def _event(self, signals: list[Signal], at: int) -> None:
        output = visible = payload = False
        silent = True  # an event of which the dialect says nothing, or only a habit, is a data event all the same
        finishes: Finish | None = None
        usages: list[Usage] = []
        after_terminator = self.terminator is not None
        after_error = self.error is not None or self.failed_finish is not None
        after_finish = bool(self.finish)
        if after_terminator and any(isinstance(signal, Terminator) for signal in signals):
            self._again(signals, at)
            return
        for signal in signals:
            kind = signal.__class__
            if kind is Content:
                payload = True
                if self._content(signal) and not signal.late:  # type: ignore[arg-type, union-attr]  # narrowed by the class test, which mypy does not follow
                    output = True
                    if self.first_audio_at is None and signal.kind == "audio":  # type: ignore[union-attr]
                        self.first_audio_at = at
                    visible = visible or signal.kind in _VISIBLE  # type: ignore[union-attr]
            elif isinstance(signal, ToolCall):
                payload = True
                before = self.tools.chars
                if self.tools.add(signal) and not signal.final:
                    output = True
                    self._count_output("tool_arguments", max(self.tools.chars - before, 0))
                    self._note_after_finish(signal.choice)
            elif isinstance(signal, Finish):
                payload = True
                finishes = signal
                self._finish(signal)
                if signal.failed and self.error_at is None:
                    self.error_at = at
            elif isinstance(signal, Usage):
                payload = True
                usages.append(signal)
            elif isinstance(signal, Annotation):
                if signal.name == "null_usage":
                    self.usage.null()
                else:
                    self.notes |= {signal.name}
                    silent = silent and signal.name not in _BESIDE_DATA
                    if signal.name == "foreign_terminator" and after_error:
                        self.notes |= {"error_then_done"}
            elif isinstance(signal, Terminator):
                silent = False
                self._terminator(signal, at, after_error=after_error)
            elif isinstance(signal, KeepAlive):
                silent = False
                self.keep_alive(signal.kind, at)
            else:
                payload = self._rest(signal, at) or payload
        payload = payload or silent
        if output and after_finish and self.first_output_at is None:
            self.notes |= {"finish_reason_before_content"}
        self._close_event(at, usages, finishes, output=output, visible=visible, payload=payload)
        if payload and after_terminator:
            self.notes |= {"data_after_terminator"}

    def _again(self, signals: list[Signal], at: int) -> None:
        """The terminator once more: what it repeats is no news, but counts that the first one left out are taken."""
        self.notes |= {"duplicate_terminator"}
        self.progress.event(at)
        for signal in signals:
            if isinstance(signal, Usage):
                self.usage.add(signal, finished=False, finishes=False)

    def _close_event(
        self, at: int, usages: list[Usage], finishes: Finish | None, *, output: bool, visible: bool, payload: bool
    ) -> None:
        if self.whole:  # one document: its parts are in no order that could be odd
            for usage in usages:
                self.usage.add(usage, finished=False, finishes=False)
            return
        if payload:
            self._events += 1
            self.last_event_at = at
            self.progress.event(at)
        if output or finishes is not None:
            self.usage.goes_on()
        if finishes is not None:
            self._events_with_finish += 1
            if output:
                self.notes |= {"finish_reason_on_content_chunk"}
        finished = bool(self.finish) and finishes is None
        for usage in usages:
            self.usage.add(usage, finished=finished, finishes=finishes is not None)
        if usages:
            self.usage.event_over()
        if output:
            self._output(at, visible=visible)

    def _output(self, at: int, *, visible: bool) -> None:
        self.output_chunks += 1
        if self.first_output_at is None:
            self.first_output_at = at
        else:
            self._gap(at)
        self.last_output_at = at
        if visible and self.first_visible_at is None:
            self.first_visible_at = at
        self.progress.output(at)

    def _gap(self, at: int) -> None:
        assert self.last_output_at is not None
        since = max(self.last_output_at, self._resumed_at)
        self.waited += since - self.last_output_at
        self.gaps.add(at - since)

    def _content(self, content: Content) -> bool:
        if content.size <= 0 and not content.text:
            return False
        if content.kind == "text":
            self.text.add(content.text, content.choice)
            if content.choice not in self.text_choices and len(self.text_choices) < CHOICES_KEPT:
                self.text_choices += (content.choice,)
        elif content.kind == "reasoning":
            self.reasoning.add(content.text, content.choice)
        elif content.kind == "transcript":
            self.transcript.add(content.text, content.choice)
        elif content.kind == "refusal":
            self.notes |= {"refusal_delta"}
            if has_lone_edge(content.text):
                self.notes |= {"lone_surrogate"}
        self._count_output(content.kind, content.size or len(content.text))
        if self.finish:
            self._note_after_finish(content.choice)
        return True

    def _count_output(self, kind: str, size: int) -> None:
        self.output_size += size
        self.kinds[kind] = self.kinds.get(kind, 0) + size

    def _note_after_finish(self, choice: int) -> None:
        # Finishes of the same event stand behind its output, so a finished choice here finished in an earlier one.
        if choice in self.finish:
            self.notes |= {"chunk_after_finish"}

    def _finish(self, finish: Finish) -> None:
        if finish.choice in self.finish and not finish.revises:
            self.notes |= {"finish_reason_repeated", "chunk_after_finish"}
        if finish.choice in self.finish or len(self.finish) < CHOICES_KEPT:
            self.finish[finish.choice] = kept(finish.reason)
        if finish.failed:
            self.notes |= {"finish_reason_error"}
            if self.failed_finish is None:
                self.failed_finish = kept(finish.reason)
        self.progress.finished()

    def _terminator(self, terminator: Terminator, at: int, *, after_error: bool) -> None:
        self.terminator = terminator.name
        self.terminator_at = at
        if after_error and terminator.name == "done_sentinel":
            self.notes |= {"error_then_done"}
        self.progress.event(at)
        self.progress.finished()

    def _rest(self, signal: Signal, at: int) -> bool:
        """The rarer signals; True for those that are payload."""
        if isinstance(signal, InBandError):
            if self.error is None:
                self.error = kept_error(signal)
                self.error_at = at
            if not self.whole:
                self.notes |= {"error_event_in_200_stream"}
        elif isinstance(signal, Identity):
            mine = self.identity
            self.identity = Identity(
                mine.id or _kept(signal.id),
                _kept(signal.model) or mine.model,
                _kept(signal.service_tier) or mine.service_tier,
                _kept(signal.system_fingerprint) or mine.system_fingerprint,
            )
        elif isinstance(signal, Malformed):
            self._malformed(signal)
        elif isinstance(signal, WholeText) and self.text.is_repeated_by(signal.text, signal.choice):
            self.notes |= {"full_message_repeated"}
        else:
            assert isinstance(signal, (Role, WholeText))
        return True

    def finish_reason(self) -> str | None:
        """The raw finish reason, the last one of choice 0 (of any, where indexes mean nothing)."""
        if "choice_index_unstable" in self.notes and self.finish:
            return list(self.finish.values())[-1]
        return self.finish.get(0)

    @property
    def finished_on_every_chunk(self) -> bool:
        """Whether each event stated a finish reason, at least two of them."""
        return self._events_with_finish > 1 and self._events_with_finish == self._events


def _kept(name: str | None) -> str | None:
    return None if name is None else kept(name)


def kept_error(error: InBandError) -> InBandError:
    """An error as it is remembered: its message bounded."""
    return InBandError(kept(error.message, MESSAGE_LIMIT), _kept(error.type))
