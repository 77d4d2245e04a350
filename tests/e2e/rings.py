"""Reads ring files with nothing but struct: what a table's file holds, living or dead."""
import glob
import math
import os
import struct

HEAD = struct.Struct("<8sHHIIIQQQQQQQQQII64s160s")
COLUMN = struct.Struct("<40s16sIIQ120s")
NEXT, HEAP_NEXT, DROPPED, UNNAMED, CLOSED = 384, 392, 448, 456, 468
TIME, INT, REAL, BOOL, NAME, TEXT = range(1, 7)
CELL = {TIME: "<q", INT: "<q", REAL: "<d", BOOL: "<B", NAME: "<I", TEXT: "<Q"}
NULL_INT, NULL_REAL = -1 << 63, struct.pack("<Q", 0x7ff8000000504221)


def text_of(raw):
    return raw.split(b"\0")[0].decode()


class Ring:
    """One ring file, as it is at this moment."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        (magic, self.major, _minor, head_size, column_size, count, self.capacity, size, columns_at,
         self.sequence_at, self.dict_at, _dict_size, self.heap_at, self.heap_size, self.created_ns,
         self.flags, self.generation, name, doc) = HEAD.unpack_from(self.data)
        assert magic == b"PBRING\r\n" and self.major == 1 and size == len(self.data)
        assert head_size >= 472 and column_size >= COLUMN.size
        self.name, self.doc = text_of(name), text_of(doc)
        self.next, self.heap_next = struct.unpack_from("<QQ", self.data, NEXT)
        self.dropped, self.unnamed = struct.unpack_from("<QQ", self.data, DROPPED)
        self.closed = struct.unpack_from("<I", self.data, CLOSED)[0]
        self.columns = []
        for i in range(count):
            column, unit, kind, _width, at, about = COLUMN.unpack_from(
                self.data, columns_at + i * column_size)
            self.columns.append((text_of(column), kind, at, text_of(unit), text_of(about)))

    def text(self, at):
        _hash, size = struct.unpack_from("<II", self.data, at)
        return self.data[at + 8:at + 8 + size].decode()

    def cell(self, kind, at, slot):
        form = CELL[kind]
        at += slot * struct.calcsize(form)
        value, = struct.unpack_from(form, self.data, at)
        if kind in (TIME, INT):
            return None if value == NULL_INT else value
        if kind == REAL:
            is_null = math.isnan(value) and self.data[at:at + 8] == NULL_REAL
            return None if is_null else value
        if kind == BOOL:
            return None if value == 255 else bool(value)
        if kind == NAME:
            return self.text(self.dict_at + (value - 1) * 8) if value else None
        gone = not value or self.heap_next - (value - 1) > self.heap_size
        return None if gone else self.text(self.heap_at + (value - 1) % self.heap_size)

    def rows(self):
        """Complete rows, oldest first, each a dictionary."""
        out = []
        for number in range(max(0, self.next - self.capacity), self.next):
            slot = number % self.capacity
            word, = struct.unpack_from("<Q", self.data, self.sequence_at + 8 * slot)
            if word == (number + 1) << 1 | 1:
                out.append({name: self.cell(kind, at, slot)
                            for name, kind, at, _unit, _doc in self.columns})
        return out


def files(home):
    """Names of the ring files in a folder."""
    return sorted(os.path.basename(path) for path in glob.glob(os.path.join(home, "*.ring")))


def rings(home, table):
    """All generations of a table, oldest first."""
    found = [Ring(path) for path in glob.glob(os.path.join(home, table + ".*.ring"))]
    return sorted((ring for ring in found if ring.name == table), key=lambda r: r.generation)


def rows(home, table):
    return [row for ring in rings(home, table) for row in ring.rows()]


def lines(home, name):
    """`meta` or `status` as a dictionary."""
    with open(os.path.join(home, name), encoding="utf-8", errors="replace") as file:
        return dict(line.rstrip("\n").split("=", 1) for line in file)
