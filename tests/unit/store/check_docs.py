"""
docs/store-format.md is true: its tables of offsets are those of the header, and the Python
reader that it prints reads what examples/ring_writer.c wrote.

usage: check_docs.py ROOT PROGRAM, the program being examples/ring_writer.c.
"""
import os
import re
import subprocess
import sys
import tempfile

PARTS = {"Head": "head", "Column description": "column", "Entries of dictionary and heap": "text"}


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def check_offsets(docs, header):
    asserted = {(part, field, int(at))
                for part, field, at in re.findall(r"PB_AT\((\w+), (\w+), (\d+)\)", header)}
    told = set()
    for title, text in re.findall(r"^### ([^\n]*)\n(.*?)(?=^##)", docs, flags=re.M | re.S):
        for at, field in re.findall(r"^\| (\d+) \| \w+ \| ([a-z_]+) \|", text, flags=re.M):
            told.add((PARTS[title], field, int(at)))
    assert told == asserted, sorted(told ^ asserted)


def rows(script, ring):
    run = subprocess.run([sys.executable, script, ring], stdout=subprocess.PIPE, check=True)
    return [line.split("\t") for line in run.stdout.decode().splitlines()]


def check_reader(docs, program, folder):
    script, count = os.path.join(folder, "read_ring.py"), 1000
    with open(script, "w", encoding="utf-8") as file:
        file.write(re.search(r"```python\n(.*?)```", docs, flags=re.S).group(1))
    subprocess.run([program, str(count), "0", folder], check=True, stdout=subprocess.DEVNULL)
    head, *found = rows(script, os.path.join(folder, "demo.steps.0.ring"))
    assert head == ["demo.steps", "timestamp", "step", "loss", "phase", "improved", "note"], head
    assert len(found) == count, len(found)
    for step, (timestamp, number, loss, phase, improved, note) in enumerate(found):
        assert int(timestamp) > 1e18 and int(number) == step, (timestamp, number)
        assert (loss == "None") == (phase == "warmup") == (step < 10), (step, loss, phase)
        assert improved in ("True", "False") and (step > 0 or improved == "True"), improved
        assert note == "step %d of %d" % (step, count), note
    # More rows than fit: the newest ones, in order.
    subprocess.run([program, "10000", "0", folder], check=True, stdout=subprocess.DEVNULL)
    found = rows(script, os.path.join(folder, "demo.steps.1.ring"))[1:]
    assert [int(row[1]) for row in found] == list(range(10000 - 8192, 10000))


def main(root, program):
    docs = read(root, "docs", "store-format.md")
    check_offsets(docs, read(root, "src", "store", "format.h"))
    with tempfile.TemporaryDirectory() as folder:
        check_reader(docs, program, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
