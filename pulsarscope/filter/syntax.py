"""The grammar: filter text → syntax tree.

The parser is lark's LALR parser: it takes time and memory linear in the text and does not recurse. Words are names, operators or values
by their position (a contextual lexer), so that `message.in` and `status == ok` need no quotes.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from pulsarscope.filter.filter_error import FilterError, Place
from pulsarscope.model.limits import FILTER_DEPTH_MAX, FILTER_MAX_CHARACTERS
from pulsarscope.model.text import similar_hint
from pulsarscope.model.units import DURATIONS, SIZES

if TYPE_CHECKING:
    from lark import Lark, Token

STRING, PATTERN, BYTES, TIME, DURATION, SIZE, NUMBER, NETWORK, CONNECTION, WORD = (
    "STRING",
    "PATTERN",
    "BYTES",
    "TIME",
    "DURATION",
    "SIZE",
    "NUMBER",
    "NETWORK",
    "CONNECTION",
    "WORD",
)

GRAMMAR = r"""
start: _either
_either: either | _both
either: _both (_OR _both)+
_both: both | _maybe_not
both: _maybe_not (_AND _maybe_not)+
_maybe_not: negation | "(" group ")" | _test
group: _either
negation: NOT _maybe_not

_test: comparison | membership | matching | presence | quantified
presence: field
quantified: QUANTIFIER "(" (comparison | one_of | matching) ")"
comparison: _operand OPERATOR literal
membership: _operand NOT? _IN "{" _item ("," _item)* ","? "}"
one_of: _operand _IN "{" _item ("," _item)* ","? "}"
matching: field _MATCHES PATTERN
_operand: field | measured
measured: FUNCTION "(" field CLOSING
_item: literal | range
range: literal ".." literal

field: PATH (_part)*
_part: entry | TAIL | slice
entry: "[" STRING CLOSE
slice: "[" _bounds CLOSE
_bounds: position | from_length | from_to
position: INTEGER
from_length: [INTEGER] ":" [INTEGER]
from_to: INTEGER "-" INTEGER
literal: STRING | BYTES | TIME | DURATION | SIZE | NUMBER | NETWORK | CONNECTION | WORD

CLOSE: "]"
CLOSING: ")"
FUNCTION.9: /(?:len|count)(?=[ \t\r\n]*\()/
QUANTIFIER.9: /(?:any|all)(?=[ \t\r\n]*\()/
_OR.9: /\|\||(?:or|OR)(?![A-Za-z0-9_.])/
_AND.9: /&&|(?:and|AND)(?![A-Za-z0-9_.])/
NOT.9: /!(?!=)|(?:not|NOT)(?![A-Za-z0-9_.])/
_IN.9: /in(?![A-Za-z0-9_.])/
_MATCHES.9: /matches(?![A-Za-z0-9_.])/
OPERATOR.9: /[=!]=|[<>]=?|contains(?![A-Za-z0-9_.])/

PATH: /[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*/
TAIL: /(?:\.[A-Za-z_][A-Za-z0-9_]*)+/
INTEGER: /-?[0-9]{1,18}/
STRING: /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/s
PATTERN.2: /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/s
TIME.9: /[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:[0-9]{2})?)?(?![A-Za-z0-9_:])/
BYTES.8: /(?:[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2})+|[0-9][A-Fa-f])(?![A-Za-z0-9_:])/
NETWORK.7: /[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?:\/[0-9]{1,2})?(?![A-Za-z0-9_])/
DURATION.6: /-?[0-9]+(?:\.[0-9]+)?(?:ns|us|µs|ms|s|m|h)(?![A-Za-z0-9_])/
SIZE.5: /[0-9]+(?:\.[0-9]+)?(?:[KkMGT]i?)?B(?![A-Za-z0-9_])/
CONNECTION: /#(?:[0-9]{1,9}:)?[0-9]{1,11}(?![A-Za-z0-9_:])/
NUMBER.4: /-?(?:0[xX][0-9A-Fa-f]+|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)(?![A-Za-z0-9_])/
WORD.3: /[A-Za-z_](?:[A-Za-z0-9_]|-(?=[A-Za-z0-9_]))*(?:\(-?[0-9]{1,10}\))?/

%ignore /[ \t\r\n]+/
"""


class Literal(msgspec.Struct, frozen=True):
    """A value in its textual form; `kind` is the name of its terminal."""

    kind: str
    text: str
    place: Place


class Range(msgspec.Struct, frozen=True):
    """An interval `low..high` that includes both ends."""

    low: Literal
    high: Literal


class Slice(msgspec.Struct, frozen=True):
    """A part of bytes or text, with Python's indices; `end` None is the end."""

    start: int
    end: int | None


class NamePart(msgspec.Struct, frozen=True):
    """A step into a field: `.name`, or an entry of an object by its key, as in `["key"]`."""

    name: str
    place: Place
    quoted: bool = False


class Name(msgspec.Struct, frozen=True):
    """A name of a field, or a function of it."""

    parts: tuple[NamePart, ...]
    slice: Slice | None
    place: Place
    function: str | None = None
    """`len` for the length of its values, `count` for their number."""
    quantifier: str | None = None
    """`any` or `all` of its values."""


class PresenceTest(msgspec.Struct, frozen=True):
    """A field alone: it is present, or true."""

    field: Name


class ComparisonTest(msgspec.Struct, frozen=True):
    """A field, an operator and a value."""

    field: Name
    operator: str
    value: Literal


class MembershipTest(msgspec.Struct, frozen=True):
    """A field in a set of values and ranges."""

    field: Name
    items: tuple[Literal | Range, ...]


class PatternTest(msgspec.Struct, frozen=True):
    """A field and a regular expression, without its quotes."""

    field: Name
    pattern: Literal


class Negation(msgspec.Struct, frozen=True):
    """The negation of a part."""

    part: SyntaxTree


class Conjunction(msgspec.Struct, frozen=True):
    """Parts joined by `and`."""

    parts: tuple[SyntaxTree, ...]


class Disjunction(msgspec.Struct, frozen=True):
    """Parts joined by `or`."""

    parts: tuple[SyntaxTree, ...]


Test = PresenceTest | ComparisonTest | MembershipTest | PatternTest
SyntaxTree = Test | Negation | Conjunction | Disjunction


class _Nested(msgspec.Struct, frozen=True):
    """A part of the filter, and the depth of nesting in it."""

    node: SyntaxTree
    depth: int = 0


class _Bracket(msgspec.Struct, frozen=True):
    """The content of brackets, and the position of their end."""

    inner: NamePart | Slice
    end: int


class _Builder:
    """The methods that lark calls for each rule, from the leaves up. Parts come with their depth: `_Nested`."""

    def start(self, children: list[Any]) -> SyntaxTree:
        syntax_tree: SyntaxTree = children[0].node
        return syntax_tree

    def either(self, children: list[Any]) -> _Nested:
        return _Nested(Disjunction(tuple(child.node for child in children)), max(child.depth for child in children))

    def both(self, children: list[Any]) -> _Nested:
        return _Nested(Conjunction(tuple(child.node for child in children)), max(child.depth for child in children))

    def group(self, children: list[Any]) -> _Nested:
        return _deeper(children[0].node, children[0].depth)

    def negation(self, children: list[Any]) -> _Nested:
        return _deeper(Negation(children[-1].node), children[-1].depth)

    def presence(self, children: list[Any]) -> _Nested:
        return _Nested(PresenceTest(children[0]))

    def comparison(self, children: list[Any]) -> _Nested:
        field, operator, value = children
        return _Nested(ComparisonTest(field, str(operator), value))

    def membership(self, children: list[Any]) -> _Nested:
        field, *items = children
        if items and not isinstance(items[0], (Literal, Range)):  # the token `not`
            return _Nested(Negation(MembershipTest(field, tuple(items[1:]))))
        return _Nested(MembershipTest(field, tuple(items)))

    def matching(self, children: list[Any]) -> _Nested:
        field, token = children
        return _Nested(PatternTest(field, Literal(PATTERN, str(token[1:-1]), _place(token))))

    def one_of(self, children: list[Any]) -> _Nested:
        return self.membership(children)

    def quantified(self, children: list[Any]) -> _Nested:
        quantifier, test = children
        name = msgspec.structs.replace(test.node.field, quantifier=str(quantifier))
        return _Nested(msgspec.structs.replace(test.node, field=name))

    def measured(self, children: list[Any]) -> Name:
        function, name, closing = children
        measured: Name = msgspec.structs.replace(name, function=str(function), place=(function.start_pos, closing.end_pos))
        return measured

    def range(self, children: list[Any]) -> Range:
        return Range(*children)

    def literal(self, children: list[Any]) -> Literal:
        (token,) = children
        return Literal(token.type, str(token), _place(token))

    def field(self, children: list[Any]) -> Name:
        start, end = _place(children[0])
        parts: list[NamePart] = []
        bounds: Slice | None = None
        for child in children:
            if isinstance(child, _Bracket):
                end = child.end
                if isinstance(child.inner, NamePart):
                    parts.append(child.inner)
                else:
                    bounds = bounds or child.inner
                continue
            at = child.start_pos
            for name in child.split("."):
                if name:
                    parts.append(NamePart(name, (at, at + len(name))))
                at += len(name) + 1
            end = child.end_pos
        return Name(tuple(parts), bounds, (start, end))

    def entry(self, children: list[Any]) -> _Bracket:
        token, close = children
        return _Bracket(NamePart(str(token), _place(token), quoted=True), close.end_pos)

    def slice(self, children: list[Any]) -> _Bracket:
        bounds, close = children
        return _Bracket(bounds, close.end_pos)

    def position(self, children: list[Any]) -> Slice:
        start = int(children[0])
        return Slice(start, None if start == -1 else start + 1)

    def from_length(self, children: list[Any]) -> Slice:
        first, length = (None if child is None else int(child) for child in children)
        start = first or 0
        end = None if length is None else start + max(length, 0)
        return Slice(start, None if start < 0 and end is not None and end >= 0 else end)

    def from_to(self, children: list[Any]) -> Slice:
        return Slice(int(children[0]), int(children[1]) + 1)


def parse(text: str) -> SyntaxTree:
    """Return the syntax tree of a filter. Raises FilterError when it is syntactically wrong, too long, or too deeply nested."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    if len(text) > FILTER_MAX_CHARACTERS:
        reason = f"the filter has {len(text):,} characters; the limit is {FILTER_MAX_CHARACTERS:,}"
        raise FilterError(reason, text, (FILTER_MAX_CHARACTERS, FILTER_MAX_CHARACTERS))
    if not text.strip():
        raise FilterError("the filter is empty: give an expression such as latency > 50ms", text, (0, 0))
    try:
        syntax_tree: SyntaxTree = _parser().parse(text)  # type: ignore[assignment]
    except UnexpectedToken as error:
        end = error.token.type == "$END"
        place = (len(text), len(text)) if end else _place(error.token)
        raise _refusal(error.accepts or error.expected, text, place) from None
    except UnexpectedCharacters as error:
        start: Any = error.pos_in_stream
        place = (start, start + 1)
        raise _refusal(error.allowed or set(), text, place) from None
    except _TooDeep:
        raise FilterError(f"the filter nests parentheses and negations more than {FILTER_DEPTH_MAX} deep", text, (0, 1)) from None
    return syntax_tree


class _TooDeep(Exception):  # noqa: N818 - internal: becomes a FilterError
    """The filter is nested deeper than the limit."""


def _deeper(node: SyntaxTree, depth: int) -> _Nested:
    if depth >= FILTER_DEPTH_MAX:
        raise _TooDeep
    return _Nested(node, depth + 1)


@cache
def _parser() -> Lark:
    from lark import Lark

    return Lark(GRAMMAR, parser="lalr", lexer="contextual", maybe_placeholders=True, transformer=_Builder())


def _place(token: Token) -> Place:
    start = token.start_pos or 0
    return start, token.end_pos or start + len(token)


_COMMON_MISTAKES = {
    "=": "= is not an operator: write == to compare",
    "&": "& is not an operator: write && or and",
    "|": "| is not an operator: write || or or",
    '"': "the text has no closing quote",
    "'": "the text has no closing quote",
}

_EXPECTED = (
    (NUMBER, "a value is expected here"),
    ("PATTERN", "a regular expression in quotes is expected here"),
    ("PATH", "the name of a field is expected here"),
    ("INTEGER", "a key in quotes, or positions as in [0:4], are expected here"),
    ("CLOSE", "a closing bracket is expected here"),
    ("OPERATOR", "an operator is expected here: == != < <= > >= contains matches in, or and, or"),
    ("RBRACE", "a comma or the closing brace of the set is expected here"),
    ("LBRACE", "a set in braces is expected here, as in {1..5, 9}"),
    ("_AND", "and, or, or the end is expected here"),
)
"""Terminal -> message if it is valid at the place of an error; the first valid one counts."""


_WORDS = {"OPERATOR": ("contains",), "_MATCHES": ("matches",), "_AND": ("and",)}
"""Terminal -> words that stand for it, of which a text at its place may be a misspelling."""

_ODD_UNIT = re.compile(r"(?<![\w.:/-])-?[0-9]+(?:\.[0-9]+)?[^\W0-9_]\w*(?![\w.:/-])")


def _refusal(terminals: set[str], text: str, place: Place) -> FilterError:
    for number in _ODD_UNIT.finditer(text):
        if number.start() <= place[0] < number.end():
            return FilterError(f"{number[0]} is neither a number nor one with a unit, as in 50ms or 4KiB", text, number.span())
    return FilterError(_expected(terminals, text, place), text, place)


def _expected(terminals: set[str], text: str, place: Place) -> str:
    start, end = place
    if start == len(text) and "CLOSING" in terminals:
        return "a closing parenthesis is missing"
    word = text[start : start + 1]
    if text.startswith(("=~", "~"), start):
        return f"{'~' if word == '~' else '=~'} is not an operator: write matches for a regular expression"
    if word in _COMMON_MISTAKES and end - start <= 1:
        return _COMMON_MISTAKES[word]
    unit = text[start:end]
    if unit in {*DURATIONS, *SIZES} and text[:start].endswith(" ") and text[:start].rstrip()[-1:].isdigit():
        return f"the unit {unit} stands right behind its number, without a space"
    reason = next((reason for terminal, reason in _EXPECTED if terminal in terminals), "unexpected text after the end of the filter")
    known = [word for terminal, words in _WORDS.items() if terminal in terminals for word in words]
    return reason + similar_hint(unit, known)
