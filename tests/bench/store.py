"""What a row costs the process that writes it, and what it takes to read rows back."""
import os
import subprocess
import sys
import tempfile

import measure

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = ["src/store/" + name for name in ("create.c", "file.c", "writer.c", "reader.c",
                                            "reader_open.c", "reader_text.c")]
BAR_APPEND, BAR_RATE, BAR_READ = 30, 20, 25


def build(folder):
    """The driver, compiled as the agent is."""
    program = os.path.join(folder, "store_driver")
    sources = [os.path.join(measure.ROOT, name) for name in SOURCES + ["src/base/err.c"]]
    subprocess.run(["cc", "-std=gnu11", "-O2", "-fPIC", "-D_GNU_SOURCE=",
                    "-I" + os.path.join(measure.ROOT, "src"), "-pthread", "-o", program,
                    os.path.join(HERE, "store_driver.c")] + sources, check=True)
    return program


def numbers(program, rounds):
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=where) as folder:
        run = subprocess.run([program, folder, str(rounds)], stdout=subprocess.PIPE, check=True)
    return {what: float(value) for what, value in
            (line.split() for line in run.stdout.decode().splitlines())}


def rows(quick):
    with tempfile.TemporaryDirectory() as folder:
        found = numbers(build(folder), 20 if quick else 500)
    append = found["append_ns"]
    note = "best %.1f, fresh pages %.1f" % (found["append_least_ns"], found["first_ns"])
    good = append <= BAR_APPEND
    if not good and found["append_least_ns"] <= BAR_APPEND:
        good, note = None, note + ": too much other load to tell"
    yield ("append, 8 columns, one thread", "%d ns a row" % BAR_APPEND, "%.1f ns" % append, "",
           good, note)
    yield ("  rows a second, one thread", "%d M" % BAR_RATE, "%.1f M" % found["alone_mrows"], "",
           found["alone_mrows"] >= BAR_RATE)
    yield ("  rows a second, 4 threads, one table", "", "%.1f M" % found["together_mrows"], "",
           None, "%d CPUs" % len(os.sched_getaffinity(0)))
    yield ("  a name that is known, 30 bytes", "", "%.1f ns" % found["name_ns"], "", None)
    yield ("  making a table of 65,536 rows", "", "%.2f ms" % found["create_ms"], "", None)
    yield ("read 1 M rows, 3 columns, one thread", "%d ms" % BAR_READ,
           "%.1f ms" % found["read_ms"], "", found["read_ms"] <= BAR_READ,
           "%.0f M rows/s" % (found["read_rows"] / found["read_ms"] / 1000))


if __name__ == "__main__":
    for line in rows("--quick" in sys.argv):
        print(" | ".join(str(cell) for cell in line))
