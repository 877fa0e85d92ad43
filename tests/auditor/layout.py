"""Decodes pieces by the layouts in docs/storage-format.md: the page is the decoder's only source."""

import re

WIDTHS = {251: 2, 252: 4, 253: 8}
WORD = r"[A-Za-z_][A-Za-z0-9_]*"


class Wrong(Exception):
    """The bytes, or the page, are not what they should be."""


class Layouts:
    """What the page says of records (`record`), alternatives (`one`) and other names of types (`alias`)."""

    def __init__(self, page):
        self.records, self.ones, self.aliases = {}, {}, {}
        for block in re.findall(r"^```layout\n(.*?)^```", page, re.S | re.M):
            self._read(block)

    def _read(self, block):
        one = None
        for line in filter(str.strip, block.splitlines()):
            if match := re.fullmatch(rf"record ({WORD}) = (.*)", line):
                self.records[match[1]] = fields(match[2])
            elif match := re.fullmatch(rf"alias ({WORD}) = (.*)", line):
                self.aliases[match[1]] = match[2]
            elif match := re.fullmatch(rf"one ({WORD}) =", line):
                one = self.ones[match[1]] = {}
            elif one is not None and (match := re.fullmatch(rf"  (\d+) ({WORD})(?:\((.*)\))?", line)):
                one[int(match[1])] = (match[2], variant(match[3] or ""))
            else:
                raise Wrong(f"the page has a layout that cannot be read: {line!r}")


def fields(text):
    """`a: T, b: {K: V}` as a list of names and types."""
    parts, depth, part = [], 0, ""
    for character in text:
        depth += {"{": 1, "[": 1, "(": 1, "}": -1, "]": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += character
    if part.strip():
        parts.append(part)
    return [tuple(side.strip() for side in part.split(":", 1)) for part in parts]


def variant(text):
    """The fields of a variant; a single type without a name is the variant's whole content."""
    return fields(text) if not text or re.match(rf"{WORD}:", text) else text


class Piece:
    """Walks over a piece."""

    def __init__(self, layouts, data):
        self.layouts, self.data, self.at, self.names = layouts, data, 0, []
        self.names = [self.text() for _ in range(self.number())]

    def take(self, count):
        end = self.at + count
        if end > len(self.data):
            raise Wrong(f"{count} bytes wanted at {self.at}, {len(self.data) - self.at} are left")
        taken, self.at = self.data[self.at:end], end
        return taken

    def number(self):
        first = self.take(1)[0]
        if first < 251:
            return first
        if first not in WIDTHS:
            raise Wrong(f"no number begins with {first}")
        return int.from_bytes(self.take(WIDTHS[first]), "little")

    def signed(self):
        number = self.number()
        return (number >> 1) ^ -(number & 1)

    def truth(self):
        byte = self.take(1)[0]
        if byte > 1:
            raise Wrong(f"{byte} is neither true nor false")
        return byte == 1

    def text(self):
        return self.take(self.number()).decode()

    def read(self, kind):
        """A value of a type of the page."""
        primitives = {
            "u32": self.number, "u64": self.number, "i64": self.signed, "time": self.signed, "text": self.text,
            "bool": self.truth, "u8": lambda: self.take(1)[0], "bytes16": lambda: self.take(16),
            "i8": lambda: int.from_bytes(self.take(1), "little", signed=True),
            "name": lambda: self.names[self.number()],
        }
        if kind in primitives:
            return primitives[kind]()
        if kind.endswith("?"):
            return self.read(kind[:-1]) if self.truth() else None
        if kind.startswith("["):
            return [self.read(kind[1:-1]) for _ in range(self.number())]
        if kind.startswith("{"):
            (key, value), = fields(kind[1:-1])
            pairs = [(self.read(key), self.read(value)) for _ in range(self.number())]
            return {freeze(key): value for key, value in pairs}
        if kind in self.layouts.aliases:
            return self.read(self.layouts.aliases[kind])
        if kind in self.layouts.records:
            return {name: self.read(kind) for name, kind in self.layouts.records[kind]}
        if kind in self.layouts.ones:
            tag = self.take(1)[0]
            if tag not in self.layouts.ones[kind]:
                raise Wrong(f"docs/storage-format.md does not say what tag {tag} of {kind} is")
            name, content = self.layouts.ones[kind][tag]
            if isinstance(content, str):
                return {"tag": tag, "one": name, "is": self.read(content)}
            return {"tag": tag, "one": name, **{name: self.read(kind) for name, kind in content}}
        raise Wrong(f"docs/storage-format.md does not say what a {kind} is")

    def end(self):
        if self.at != len(self.data):
            raise Wrong(f"{len(self.data) - self.at} bytes too many")


def freeze(value):
    """A key that can be looked up."""
    return tuple(value.items()) if isinstance(value, dict) else value


def entries(layouts, first, count, payload):
    """The entries of a batch: sequence, time, actor and event of each."""
    piece = Piece(layouts, payload)
    time, actor, found = 0, None, []
    for sequence in range(first, first + count):
        time += piece.signed()
        if piece.truth():
            actor = piece.read("Actor")
        if actor is None:
            raise Wrong("the first entry has no actor")
        found.append({"sequence": sequence, "time": time, "actor": actor, "event": piece.read("Event")})
    piece.end()
    return found
