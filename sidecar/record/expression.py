"""The expressions of `--record-only`: comparisons of fields, joined by `and`, `or`, `not` and parentheses.

    expression = term { "or" term }         comparison = field ("==" | "=" | "!=" | "<" | "<=" | ">" | ">=") value
    term       = factor { "and" factor }               | field ("=~" | "!~") value
    factor     = "not" factor | "(" expression ")" | comparison | flag

A value is a word or quoted; times are seconds, or have a unit (`500ms`, `2m`). A field with several values (`quirk`)
compares as any of them does. `none` stands for a value that is not there: only `==none` is true of it, and every `!=`
else. `!=` and `!~` are the exact opposites of `==` and `=~`. Nothing is evaluated but this.
"""

import difflib
import re
from collections.abc import Callable

from sidecar.record.facts import BY_NAME, Facts, Field, Value

type Matches = Callable[[Facts], bool]

LENGTH_LIMIT = 4096
_DEPTH_LIMIT = 50
_TOKEN = re.compile(
    r"""\s*(?:(?P<operator>==|!=|<=|>=|=~|!~|=|<|>)|(?P<parenthesis>[()])
    |(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<word>[^\s()<>=!"'~]+))""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ms|s|m|h)?", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_NONE = "none"
_FLAGS = {"true": True, "yes": True, "false": False, "no": False}


class ExpressionError(ValueError):
    """An expression that cannot be used; the text points at the place and says what could stand there."""


class _Token:
    __slots__ = ("at", "kind", "text")

    def __init__(self, kind: str, text: str, at: int) -> None:
        self.kind = kind
        self.text = text
        self.at = at


def compile_expression(text: str) -> Matches:
    """A function that says whether the facts of an exchange match. Raises ExpressionError."""
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > LENGTH_LIMIT:
            raise ExpressionError(f"longer than {LENGTH_LIMIT} characters")
        self._text = text
        self._tokens = list(self._split())
        self._next = 0
        self._depth = 0

    def _split(self) -> list[_Token]:
        tokens = []
        at, end = 0, len(self._text.rstrip())
        while at < end:
            match = _TOKEN.match(self._text, at)
            if match is None or match.lastgroup is None:
                at += len(self._text[at:]) - len(self._text[at:].lstrip())
                what = "a quotation mark without its other one" if self._text[at] in "\"'" else "not understood"
                raise self._error(at, what)
            tokens.append(_Token(match.lastgroup, match.group(match.lastgroup), match.start(match.lastgroup)))
            at = match.end()
        return [*tokens, _Token("end", "", end)]

    def _error(self, at: int, what: str) -> ExpressionError:
        before, after = self._text[:at].rstrip()[-30:], self._text[at:].strip()[:30]
        where = f"at character {at + 1}, {f'at {after!r}' if after else f'behind {before!r}' if before else 'empty'}"
        return ExpressionError(f"{where}: {what}")

    def _fields(self, field: str = "") -> str:
        close = difflib.get_close_matches(field, BY_NAME, 1) if field else []
        return f"{f'did you mean {close[0]}? ' if close else ''}Fields: {', '.join(BY_NAME)}"

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._peek()
        self._next += token.kind != "end"
        return token

    def _is_word(self, word: str) -> bool:
        token = self._peek()
        return token.kind == "word" and token.text.lower() == word

    def whole(self) -> Matches:
        matches = self._either()
        token = self._peek()
        if token.kind != "end":
            raise self._error(token.at, "expected and, or, or the end")
        return matches

    def _either(self) -> Matches:
        parts = [self._both()]
        while self._is_word("or"):
            self._take()
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else lambda facts: any(part(facts) for part in parts)

    def _both(self) -> Matches:
        parts = [self._factor()]
        while self._is_word("and"):
            self._take()
            parts.append(self._factor())
        return parts[0] if len(parts) == 1 else lambda facts: all(part(facts) for part in parts)

    def _factor(self) -> Matches:
        token = self._peek()
        self._depth += 1
        if self._depth > _DEPTH_LIMIT:
            raise self._error(token.at, f"nested deeper than {_DEPTH_LIMIT}")
        try:
            if self._is_word("not"):
                self._take()
                inner = self._factor()
                return lambda facts: not inner(facts)
            if token.text == "(" and token.kind == "parenthesis":
                self._take()
                inside = self._either()
                if self._peek().text != ")":
                    raise self._error(self._peek().at, f"expected ) for the ( at character {token.at + 1}")
                self._take()
                return inside
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Matches:
        token = self._take()
        if token.kind != "word" or token.text.lower() in ("and", "or"):
            raise self._error(token.at, f"expected a field. {self._fields()}")
        field = BY_NAME.get(token.text.lower())
        if field is None:
            raise self._error(token.at, f"no field is called {token.text!r}; {self._fields(token.text)}")
        operator = self._peek()
        if operator.kind != "operator":
            if field.kind == "flag":
                return lambda facts: facts[field.name] is True
            raise self._error(operator.at, f"expected a comparison of {field.name}, like {_example(field)}")
        self._take()
        value = self._take()
        if value.kind not in ("word", "quoted"):
            raise self._error(value.at, f"expected a value for {field.name}, like {_example(field)}")
        return self._compared(field, operator, value)

    def _compared(self, field: Field, operator: _Token, value: _Token) -> Matches:
        sign, text = operator.text, _unquoted(value)
        if sign in ("=~", "!~"):
            return self._matching(field, operator, value)
        if value.kind == "word" and text.lower() == _NONE and _NONE not in field.values:
            if sign not in ("==", "=", "!="):
                raise self._error(operator.at, "none can only be equal (==) or not (!=)")
            return _negated(lambda facts: facts[field.name] in (None, ()), sign == "!=")
        wanted = self._value(field, value)
        if sign in ("==", "=", "!="):
            return _negated(lambda facts: any(one == wanted for one in _each(facts[field.name])), sign == "!=")
        if field.kind in ("text", "flag") and not field.ordered:
            raise self._error(operator.at, f"{field.name} has no order: compare it with == or !=")
        return _ordered(field, sign, wanted)

    def _matching(self, field: Field, operator: _Token, value: _Token) -> Matches:
        if field.kind != "text":
            raise self._error(operator.at, f"{field.name} is no text: {operator.text} is for texts")
        try:
            pattern = re.compile(_unquoted(value))
        except re.error as error:
            raise self._error(value.at, f"no regular expression: {error}") from error
        return _negated(
            lambda facts: any(pattern.search(str(one)) for one in _each(facts[field.name])), operator.text == "!~"
        )

    def _value(self, field: Field, token: _Token) -> str | float | bool:
        text = _unquoted(token)
        if field.kind == "flag":
            if text.lower() not in _FLAGS:
                raise self._error(token.at, f"{field.name} is true or false")
            return _FLAGS[text.lower()]
        if field.kind in ("number", "seconds"):
            match = _NUMBER.fullmatch(text)
            if match is None or (match.group(2) and field.kind == "number"):
                example = "a number" if field.kind == "number" else "seconds, like 2.5, 500ms or 2m"
                raise self._error(token.at, f"{field.name} is {example}")
            return float(match.group(1)) * _UNITS[match.group(2) or "s"]
        if field.values and text not in field.values:
            close = difflib.get_close_matches(text, field.values, 1)
            listed = ", ".join(field.values) if len(field.values) < 20 else "`sidecar quirks` lists them"
            hint = f"did you mean {close[0]}? " if close else ""
            raise self._error(token.at, f"{field.name} is never {text!r}; {hint}Values: {listed}")
        return text


def _example(field: Field) -> str:
    if field.kind == "text":
        return f"{field.name}=={field.values[-1] if field.values else 'name'}"
    return f"{field.name}=={'true' if field.kind == 'flag' else '5'}"


def _unquoted(token: _Token) -> str:
    return re.sub(r"\\([\"'\\])", r"\1", token.text[1:-1]) if token.kind == "quoted" else token.text


def _each(value: Value) -> tuple[str | float | bool, ...]:
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)


def _negated(matches: Matches, negate: bool) -> Matches:
    return (lambda facts: not matches(facts)) if negate else matches


def _ordered(field: Field, sign: str, wanted: str | float | bool) -> Matches:
    def number(value: str | float | bool) -> float:
        return field.values.index(value) if isinstance(value, str) else float(value)

    bound = number(wanted)
    holds: Callable[[float], bool] = {
        "<": lambda one: one < bound,
        "<=": lambda one: one <= bound,
        ">": lambda one: one > bound,
        ">=": lambda one: one >= bound,
    }[sign]
    return lambda facts: any(holds(number(one)) for one in _each(facts[field.name]))
