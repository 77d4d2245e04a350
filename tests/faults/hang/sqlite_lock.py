"""A writer of the run database waits for a transaction that another thread left open."""
# expect: hang
import os
import sqlite3
import tempfile

path = os.path.join(tempfile.mkdtemp(), "runs.db")


def open_db():
    return sqlite3.connect(path, timeout=3600, isolation_level=None, check_same_thread=False)


db = open_db()
db.execute("create table runs (id int)")
other = open_db()
other.execute("begin exclusive")


def log_run(i):
    db.execute("insert into runs values (?)", (i,))  # here


print("stall", flush=True)
log_run(1)
