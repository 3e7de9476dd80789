"""The structured-field parser agrees with RFC 9651, and with http-sf, on what is a field."""

from __future__ import annotations

import datetime
import string
from decimal import Decimal
from typing import Any

import http_sf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrykit.facts._structured import (
    Date,
    DisplayString,
    InnerList,
    Item,
    Token,
    parse_dictionary,
    parse_item,
    parse_list,
)

PARSERS = {"item": parse_item, "list": parse_list, "dictionary": parse_dictionary}


def bare(value: Item, kind: type) -> object:
    assert type(value.value) is kind
    assert value.params == {}
    return value.value


# Bare items


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("42", int, 42),
        ("0042", int, 42),
        ("-0", int, 0),
        ("-42", int, -42),
        ("999999999999999", int, 999_999_999_999_999),
        ("-999999999999999", int, -999_999_999_999_999),
        ("4.5", float, 4.5),
        ("-0.125", float, -0.125),
        ("00.10", float, 0.1),
        ("999999999999.999", float, 999_999_999_999.999),
        ('""', str, ""),
        (r'"say \"hi\" \\"', str, 'say "hi" \\'),
        ('"!#[]~ "', str, "!#[]~ "),
        ("a", Token, "a"),
        ("*foo:bar/baz", Token, "*foo:bar/baz"),
        ("A!#$%&'*+-.^_`|~09", Token, "A!#$%&'*+-.^_`|~09"),
        (":aGVsbG8=:", bytes, b"hello"),
        (":aGVsbG8:", bytes, b"hello"),
        (":aGVsbG8==:", bytes, b"hello"),
        (":iZ==:", bytes, b"\x89"),
        (":+/Ah:", bytes, b"\xfb\xf0\x21"),
        ("::", bytes, b""),
        ("?1", bool, True),
        ("?0", bool, False),
        ("@1659578233", Date, 1_659_578_233),
        ("@-999999999999999", Date, -999_999_999_999_999),
        ('%"caf%c3%a9 100%25"', DisplayString, "caf\u00e9 100%"),
        ('%""', DisplayString, ""),
        ("  42  ", int, 42),
    ],
)
def test_each_bare_type_has_its_own_python_type(text: str, kind: type, value: object) -> None:
    """An integer is an int, a token is no string and a date is no integer."""
    assert bare(parse_item(text), kind) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\t42",
        "42\t",
        "\u00a042",
        "+1",
        "--1",
        "-",
        "- 1",
        "1000000000000000",
        "1.",
        ".1",
        "1.2345",
        "1.2.3",
        "1000000000000.1",
        "1e3",
        "1_0",
        "\u0661",
        "\uff15",
        '"a',
        'a"',
        '"\\a"',
        '"\\',
        '"\x7f"',
        '"\t"',
        '"\u00e9"',
        "'a'",
        "a\u00e9",
        "!a",
        ":a:",
        ":a===:",
        ":=:",
        ":==:",
        ":a=bc:",
        ":aGVs bG8=:",
        ":aGVsbG8_:",
        ":aGVsbG8=",
        "?2",
        "?",
        "?10",
        "?true",
        "@",
        "@1.5",
        "@1000000000000000",
        "@@1",
        '%"a',
        "%a",
        '%"%C3%A9"',
        '%"%c3"',
        '%"%zz"',
        '%"%2"',
        '%"\u00e9"',
        '%"\t"',
        "(1)",
        "1, 2",
        "1 2",
        "a=1",
        "1;",
        "1;A",
        "1;1",
        "1;a=",
        "1;a= 1",
        "1;a =1",
        "1 ;a",
        "1;\ta",
        "1;a=(1)",
        "1\n",
        "1\x00",
    ],
)
def test_what_is_no_item_is_a_value_error(text: str) -> None:
    """A text that RFC 9651 does not allow is refused whole, with the place in the error."""
    with pytest.raises(ValueError, match=r"not a structured field: expected .* at position \d+"):
        parse_item(text)


def test_parameters_keep_their_types_and_the_last_of_a_repeat() -> None:
    """A bare parameter is true; of a repeated key the last value counts."""
    assert parse_item('a; b;  c=1;d="x"') == Item(Token("a"), {"b": True, "c": 1, "d": "x"})
    assert parse_item("a;b=1;*x_-.9=?0;b=2").params == {"b": 2, "*x_-.9": False}


# Containers


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", []),
        ("  ", []),
        ("1", [1]),
        ("1,2", [1, 2]),
        ("1 \t, \t2\t", [1, 2]),
        (" 1, a ", [1, "a"]),
    ],
)
def test_a_list_has_its_members_in_order(text: str, values: list[object]) -> None:
    """Blanks around commas are no part of a member, and an empty field is an empty list."""
    assert [member.value for member in parse_list(text) if isinstance(member, Item)] == values


@pytest.mark.parametrize(
    "text",
    [
        ",",
        "1,",
        "1, ",
        ",1",
        "1,,2",
        "1 2",
        "1\t2",
        "(1",
        "1)",
        "(1(2))",
        "(1,2)",
        '(1"a")',
        "(1\t2)",
        "\t",
    ],
)
def test_a_list_with_a_hole_is_a_value_error(text: str) -> None:
    """An empty member, a missing comma or an open parenthesis voids the whole list."""
    with pytest.raises(ValueError, match="not a structured field"):
        parse_list(text)


def test_inner_lists_have_parameters_of_their_own() -> None:
    """Parameters belong to the items or to the parentheses, by where they stand."""
    assert parse_list("( 1;a  b );c=?0, ()") == [
        InnerList([Item(1, {"a": True}), Item(Token("b"), {})], {"c": False}),
        InnerList([], {}),
    ]


def test_a_dictionary_keeps_the_last_of_a_repeated_key() -> None:
    """A key without a value is true, with its parameters; a later member replaces an earlier."""
    assert parse_dictionary("a=1, b;x=1 , c=(1 2), a=(3)") == {
        "a": InnerList([Item(3, {})], {}),
        "b": Item(True, {"x": 1}),
        "c": InnerList([Item(1, {}), Item(2, {})], {}),
    }


@pytest.mark.parametrize(
    "text", ["a=1,", "=1", "A=1", "a= 1", "a =1", "1=1", "a=1 b=2", "a=1;b=", ",a"]
)
def test_a_malformed_dictionary_is_a_value_error(text: str) -> None:
    """Keys are lower case, and nothing stands around the equals sign."""
    with pytest.raises(ValueError, match="not a structured field"):
        parse_dictionary(text)


# The oracle


def plain(ours: object) -> object:
    """Our values as http-sf spells them."""
    match ours:
        case Item(value, params):
            return plain(value), {key: plain(one) for key, one in params.items()}
        case InnerList(items, params):
            return [plain(item) for item in items], {key: plain(one) for key, one in params.items()}
        case list():
            return [plain(member) for member in ours]
        case dict():
            return {key: plain(member) for key, member in ours.items()}
    return type(ours).__name__, str(ours) if isinstance(ours, str) else ours


def plain_oracle(theirs: Any) -> object:
    """http-sf's values with the names of our types."""
    match theirs:
        case (value, dict() as params):
            return plain_oracle(value), {key: plain_oracle(one) for key, one in params.items()}
        case list():
            return [plain_oracle(member) for member in theirs]
        case dict():
            return {key: plain_oracle(member) for key, member in theirs.items()}
        case Decimal():
            return "float", float(theirs)
        case datetime.datetime():
            epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
            return "Date", (theirs - epoch) // datetime.timedelta(seconds=1)
        case http_sf.Token() | http_sf.DisplayString():
            return type(theirs).__name__, str(theirs)
    return type(theirs).__name__, theirs


REFUSED = "refused"


def ours(text: str, kind: str) -> object:
    try:
        return plain(PARSERS[kind](text))
    except ValueError:
        return REFUSED


def theirs(text: str, kind: str) -> object:
    try:
        return plain_oracle(http_sf.parse(text.encode(), tltype=kind))
    except http_sf.StructuredFieldError as error:
        # RFC 9651 gives a date no calendar's limits, datetime does: there is nothing to compare.
        return None if "out of range" in str(error) else REFUSED


KEY_START = string.ascii_lowercase + "*"
keys = st.builds(
    str.__add__,
    st.sampled_from(KEY_START),
    st.text(KEY_START + string.digits + "_-.", max_size=3),
)
digits = st.text(string.digits, min_size=1, max_size=17)
signs = st.sampled_from(["", "-"])
integers = st.builds("{}{}".format, signs, digits)
decimals = st.builds("{}{}.{}".format, signs, digits, st.text(string.digits, max_size=4))
strings = st.text(string.printable[:95]).map(
    lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
)
tokens = st.builds(
    str.__add__,
    st.sampled_from(string.ascii_letters + "*"),
    st.text(string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~:/", max_size=5),
)
byte_sequences = st.text(string.ascii_letters + string.digits + "+/=", max_size=9).map(
    ":{}:".format
)
display_strings = st.text(st.characters(codec="utf-8"), max_size=5).map(
    lambda text: http_sf.ser(http_sf.DisplayString(text))
)
bare_items = st.one_of(
    integers,
    decimals,
    strings,
    tokens,
    byte_sequences,
    display_strings,
    st.sampled_from(["?0", "?1", "?2"]),
    st.integers(-62_135_596_800, 253_402_300_799).map("@{}".format),
)
parameters = st.lists(
    st.builds(
        "{}{}{}".format,
        st.sampled_from([";", "; "]),
        keys,
        st.one_of(st.just(""), bare_items.map("={}".format)),
    ),
    max_size=2,
).map("".join)
items = st.builds(str.__add__, bare_items, parameters)
inner_lists = st.builds("({}){}".format, st.lists(items, max_size=3).map(" ".join), parameters)
members = items | inner_lists
commas = st.sampled_from([",", ", ", " ,\t"])
lists = st.builds(str.join, commas, st.lists(members, max_size=4))
dictionaries = st.builds(
    str.join,
    commas,
    st.lists(
        st.one_of(
            st.builds("{}={}".format, keys, members), st.builds(str.__add__, keys, parameters)
        ),
        max_size=4,
    ),
)
fields = st.one_of(
    st.tuples(st.just("item"), items),
    st.tuples(st.just("list"), lists),
    st.tuples(st.just("dictionary"), dictionaries),
)


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, str]:
    """A field with a few of its characters exchanged, left out or put in."""
    kind, text = draw(fields)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        new = draw(st.text('"\\();,=:?@%*. \t-+019azA~\x00\x7f\u00e9', max_size=2))
        text = text[:at] + new + text[at + draw(st.integers(0, 1)) :]
    return kind, text


def agrees(kind: str, text: str) -> None:
    expected = theirs(text, kind)
    if expected is not None:
        assert ours(text, kind) == expected


@settings(max_examples=250, deadline=None)
@given(fields)
def test_generated_fields_are_read_as_http_sf_reads_them(field: tuple[str, str]) -> None:
    """Same acceptance, types, values and order of keys for text made by the grammar."""
    agrees(*field)


@settings(max_examples=350, deadline=None)
@given(mutated())
def test_mutated_fields_are_read_as_http_sf_reads_them(field: tuple[str, str]) -> None:
    """Same acceptance and values where a character or two has been spoiled."""
    agrees(*field)


@settings(max_examples=250, deadline=None)
@given(
    st.sampled_from(["item", "list", "dictionary"]),
    st.text('"\\();,=:?@%*. \t-01a', max_size=12),
)
def test_random_text_is_read_as_http_sf_reads_it(kind: str, text: str) -> None:
    """Same acceptance and values for any short text of the characters that matter."""
    agrees(kind, text)


def test_a_long_list_is_read_whole() -> None:
    """RFC 9651 asks for 1,024 members of 256 parameters at least; the reader has no limit."""
    params = "".join(f";p{n}={n}" for n in range(256))
    members = parse_list(", ".join(["a" + params] + ["a"] * 1023))
    assert len(members) == 1024
    assert members[0].params == {f"p{n}": n for n in range(256)}
