"""The scanner of key lines, checked against the TOML parser and against lines counted by hand."""

import sys

import numpy as np
import pytest

from hpcdl.config.lines import key_lines

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

BY_HAND = """\
# a comment with = and [brackets]
title = "text with # and = and ]"   # 2

[a]                                 # 4
b.c = 1                             # 5
"quoted key" = '''
literal # not a comment
''' # the key stands on line 6
t = \"\"\"
three quotes before the end: \\\"\"\"\"\"\"
list = [ 1, [ 2, 3 ],               # 11
  # a comment in the list
  { x = 1, y = [4,                  # 13
    5] }, "]",                      # 14
]
date = 1979-05-27 07:32:00 # 16

[[m.n]]
k = 1                               # 19
[[m.n]]                             # 20
k = 2                               # 21
[m.n.sub]
deep = true                         # 23
"""


def test_lines_counted_by_hand():
    tomllib.loads(BY_HAND)
    lines = key_lines(BY_HAND)
    assert lines == {
        ("title",): 2,
        ("a",): 4,
        ("a", "b"): 5,
        ("a", "b", "c"): 5,
        ("a", "quoted key"): 6,
        ("a", "t"): 9,
        ("a", "list"): 11,
        ("a", "list", 0): 11,
        ("a", "list", 1): 11,
        ("a", "list", 1, 0): 11,
        ("a", "list", 1, 1): 11,
        ("a", "list", 2): 13,
        ("a", "list", 2, "x"): 13,
        ("a", "list", 2, "y"): 13,
        ("a", "list", 2, "y", 0): 13,
        ("a", "list", 2, "y", 1): 14,
        ("a", "list", 3): 14,
        ("a", "date"): 16,
        ("m",): 18,
        ("m", "n"): 18,
        ("m", "n", 0): 18,
        ("m", "n", 0, "k"): 19,
        ("m", "n", 1): 20,
        ("m", "n", 1, "k"): 21,
        ("m", "n", 1, "sub"): 22,
        ("m", "n", 1, "sub", "deep"): 23,
    }


def test_windows_line_ends_and_escaped_keys():
    text = '\r\n[a]\r\n"b\\u0041\\"" = "x"\r\n\'c.d\' = [\r\n1,\r\n2]'
    assert key_lines(text) == {
        ("a",): 2,
        ("a", 'bA"'): 3,
        ("a", "c.d"): 4,
        ("a", "c.d", 0): 5,
        ("a", "c.d", 1): 6,
    }


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment", "   \n#x\n"])
def test_nothing_to_find(text):
    assert key_lines(text) == {}


def paths(value, path=()):
    """All paths of a parsed document."""
    found = {path} if path else set()
    if isinstance(value, dict):
        for key, item in value.items():
            found |= paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found |= paths(item, (*path, index))
    return found


STRINGS = [
    '"a]b"',
    "'c}d'",
    '"""e\n"f""g"""',
    "'''h\n'i'''",
    '"\\\\"',
    '"\\""',
    '""""q"" """""',
    '""',
]
SCALARS = ["1", "-2.5e-3", "true", "inf", "1979-05-27T07:32:00Z", *STRINGS]


class Writer:
    """Writes random valid documents and knows on which line each key begins."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.text = ""
        self.expected = {}

    def pick(self, choices):
        return choices[int(self.rng.integers(len(choices)))]

    def note(self, path):
        self.expected.setdefault(path, self.text.count("\n") + 1)

    def gap(self):
        self.text += self.pick(["", " ", "\n", "\n  ", " # , ] } \n"])

    def value(self, path, depth):
        kind = self.rng.random()
        if depth == 0 or kind < 0.5:
            self.text += self.pick(SCALARS)
        elif kind < 0.8:
            self.text += "["
            for index in range(int(self.rng.integers(4))):
                self.gap()
                self.note((*path, index))
                self.value((*path, index), depth - 1)
                self.gap()
                self.text += ","
            self.gap()
            self.text += "]"
        else:
            self.text += "{"
            for index in range(int(self.rng.integers(4))):
                self.text += ", " if index else " "
                self.pair(path, f"i{index}", depth - 1)
            self.text += " }"

    def pair(self, table, name, depth):
        path = (*table, name)
        self.note(path)
        self.text += self.pick([name, f'"{name}"', f" '{name}' "])
        if self.rng.random() < 0.2:
            path = (*path, "dotted")
            self.note(path)
            self.text += " . dotted"
        self.text += self.pick(["=", " = "])
        self.value(path, depth)

    def document(self):
        for section in range(4):
            repeats = int(self.rng.integers(3))
            for index in range(max(1, repeats)):
                self.text += self.pick(["", "\n", "# [x]\n"])
                path = (f"s{section}", "t")
                self.note(path[:1])
                self.note(path)
                if repeats:
                    path = (*path, index)
                    self.note(path)
                    self.text += f"[[s{section}.t]]\n"
                else:
                    self.text += f"[ s{section} . 't' ]\n"
                for key in range(int(self.rng.integers(4))):
                    self.pair(path, f"k{key}", 3)
                    self.text += self.pick(["\n", " # c\n", "\n\n"])
        return self.text


@pytest.mark.parametrize("seed", range(200))
def test_random_documents(seed):
    writer = Writer(seed)
    text = writer.document()
    lines = key_lines(text)
    assert set(lines) == paths(tomllib.loads(text))
    assert lines == writer.expected
