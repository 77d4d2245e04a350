"""The SQL engine alone, by its C API and without a line of the tool's: another reader of files."""
import ctypes
import json
import os
import tempfile

import harness


def library():
    """Where the tool finds it."""
    folder = os.path.dirname(os.path.realpath(harness.BIN))
    places = [os.environ.get("PROBING_ENGINE", ""), os.path.join(folder, "libduckdb.so"),
              os.path.join(folder, "../lib/probing/libduckdb.so"), "libduckdb.so"]
    return next(path for path in places if os.path.exists(path) or path == places[-1])


class Result(ctypes.Structure):
    """duckdb_result; opaque."""
    _fields_ = [("words", ctypes.c_uint64 * 6)]


def first_row(sql):
    """The first row of an answer, as integers."""
    duck = ctypes.CDLL(library())
    duck.duckdb_value_int64.restype = ctypes.c_int64
    duck.duckdb_value_int64.argtypes = [ctypes.POINTER(Result), ctypes.c_uint64, ctypes.c_uint64]
    duck.duckdb_column_count.restype = ctypes.c_uint64
    duck.duckdb_result_error.restype = ctypes.c_char_p
    database, connection, result = ctypes.c_void_p(), ctypes.c_void_p(), Result()
    assert duck.duckdb_open(None, ctypes.byref(database)) == 0
    try:
        assert duck.duckdb_connect(database, ctypes.byref(connection)) == 0
        bad = duck.duckdb_query(connection, sql.encode(), ctypes.byref(result))
        assert not bad, duck.duckdb_result_error(ctypes.byref(result)).decode()
        count = duck.duckdb_column_count(ctypes.byref(result))
        return [duck.duckdb_value_int64(ctypes.byref(result), column, 0) for column in range(count)]
    finally:
        duck.duckdb_destroy_result(ctypes.byref(result))
        duck.duckdb_disconnect(ctypes.byref(connection))
        duck.duckdb_close(ctypes.byref(database))


def rows(statements):
    """The last statement's rows, each a list of values; the engine itself writes them as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.json")
        first_row("; ".join(list(statements[:-1]) + [
            "COPY (%s) TO '%s' (FORMAT json)" % (statements[-1], path)]))
        with open(path) as file:
            return [list(json.loads(line).values()) for line in file]
