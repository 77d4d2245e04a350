"""Checks of the source tree. usage: check.py CHECK ROOT; prints file:line: what, exit 1 if any."""
import os
import re
import sys

LAYERS = ["base", "store", "host", "unwind", "profile", "inject", "agent", "show", "node", "cli"]
# What may be included beside lower layers and the layer itself is nothing; store and host
# know nothing of each other's insides, the agent nothing of the outside.
FORBIDDEN = {"agent": {"host", "inject", "unwind", "profile"}}
LIMIT_FUNCTION, LIMIT_FILE, LIMIT_LINE = 80, 600, 100


def files(root, *endings, under=("src", "tests", "tools", "examples", "docs", "share", "python")):
    for folder in under:
        for path, names, found in os.walk(os.path.join(root, folder)):
            names[:] = [name for name in names if name not in ("__pycache__", "node_modules")]
            for name in sorted(found):
                if name.endswith(endings):
                    full = os.path.join(path, name)
                    yield os.path.relpath(full, root), read(full)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def code_only(text):
    """The text without comments and strings; line numbers stay."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', blank, text,
                  flags=re.S)


def numbered(text):
    return enumerate(text.split("\n"), 1)


def layers(root):
    """A layer includes only itself and lower layers."""
    for path, text in files(root, ".c", ".h", ".def", under=("src",)):
        own = path.split(os.sep)[1]
        if own not in LAYERS:
            continue
        for number, line in numbered(text):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not match:
                continue
            target = match.group(1)
            layer = target.split("/")[0]
            if ".." in target:
                yield path, number, "include path leaves its folder: " + target
            elif layer in LAYERS and (LAYERS.index(layer) > LAYERS.index(own)
                                      or layer in FORBIDDEN.get(own, ())):
                yield path, number, "%s must not include %s" % (own, target)
            elif layer not in LAYERS and os.path.exists(
                    os.path.join(root, os.path.dirname(path), target)):
                yield path, number, "write the include from src on: " + target


QUIET = re.compile(r"\b(exit|_exit|abort|assert|printf|fprintf|puts|putchar|perror|fputs|malloc"
                   r"|calloc|realloc)\s*\(")


def quiet(root):
    """What may live inside a target never ends it, prints or allocates."""
    for path, text in files(root, ".c", ".h", under=("src/base", "src/agent", "src/store")):
        if path.startswith(os.path.join("src", "store", "reader")):
            continue
        for number, line in numbered(code_only(text)):
            match = QUIET.search(line)
            if match:
                yield path, number, "%s() has no place here" % match.group(1)


def functions(text):
    """(name, first line, length) of each function; its brace stands alone in column 0."""
    lines = code_only(text).split("\n")
    for start, line in enumerate(lines):
        if line.rstrip() != "{":
            continue
        head = start - 1
        while head > 0 and lines[head].startswith((" ", "\t")):
            head -= 1
        name = re.search(r"(\w+)\s*\(", lines[head])
        end = start
        while end < len(lines) and not lines[end].startswith("}"):
            end += 1
        yield name.group(1) if name else "?", head + 1, end - head + 1


def lengths(root):
    """Functions, files and lines stay readable."""
    for path, text in files(root, ".c", ".h", ".py", under=("src", "tests")):
        count = text.count("\n")
        if count > LIMIT_FILE:
            yield path, count, "%d lines in one file (limit %d)" % (count, LIMIT_FILE)
        for number, line in numbered(text):
            if len(line.rstrip("\n")) > LIMIT_LINE:
                yield path, number, "%d columns (limit %d)" % (len(line), LIMIT_LINE)
        if path.endswith(".c"):
            for name, number, length in functions(text):
                if length > LIMIT_FUNCTION:
                    yield path, number, "%s: %d lines (limit %d)" % (name, length, LIMIT_FUNCTION)


def headers(root):
    """A header opens with what it owns, its threads and its failures, and has a guard."""
    for path, text in files(root, ".h", under=("src",)):
        opening = text.split("*/")[0]
        if not text.startswith("/*"):
            yield path, 1, "no opening comment"
            continue
        for word in ("owns:", "threads:", "fails:"):
            if word not in opening.lower():
                yield path, 1, "the opening comment does not say %s" % word.capitalize()
        guard = "PB_" + re.sub(r"[^A-Z0-9]", "_", path[len("src/"):].upper())
        short = "PB_" + re.sub(r"[^A-Z0-9]", "_", os.path.join(
            path.split(os.sep)[1], os.path.basename(path)).upper())
        if not re.search(r"#ifndef (%s|%s)\b" % (guard, short), text):
            yield path, 1, "include guard %s is missing" % guard


MARKERS = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b")


def markers(root):
    """Nothing is left half done."""
    for path, text in files(root, ".c", ".h", ".def", ".py", ".txt", ".md", ".sh", ".cmake"):
        for number, line in numbered(text):
            match = MARKERS.search(line)
            if match:
                yield path, number, "marker " + match.group(1)


MACHINE = re.compile(r"(?<![\w.$}/])/(root|work|home|Users|opt)/")


def paths(root):
    """No path of anybody's machine."""
    for path, text in files(root, ""):
        if "\0" in text:
            continue
        for number, line in numbered(text):
            match = MACHINE.search(line)
            if match:
                yield path, number, "path of a machine: " + match.group().strip()


ARCH = re.compile(r"#\s*(?:if|elif|ifdef|ifndef)\b.*__(?:x86_64|amd64|i386|aarch64|arm)__")


def arch(root):
    """Processors are told apart only under arch/."""
    for path, text in files(root, ".c", ".h", under=("src",)):
        if os.sep + "arch" + os.sep in path:
            continue
        for number, line in numbered(text):
            if ARCH.search(line):
                yield path, number, "architecture test outside arch/"


def commands(root):
    """Every command has a file of its name, a descriptor in it and an end-to-end test."""
    path = os.path.join("src", "cli", "commands.def")
    tests = "\n".join(text for _, text in files(root, ".py", under=("tests/e2e",)))
    for number, line in numbered(read(os.path.join(root, path))):
        match = re.match(r"PB_COMMAND\((\w+)\)", line)
        if not match:
            continue
        name = match.group(1)
        source = os.path.join(root, "src", "cli", name + ".c")
        if not os.path.exists(source):
            yield path, number, "no src/cli/%s.c" % name
        elif "const struct pb_cmd pb_cmd_%s = {" % name not in read(source):
            yield path, number, "no descriptor pb_cmd_%s in src/cli/%s.c" % (name, name)
        if not re.search(r"[\"']%s[\"']" % name, tests):
            yield path, number, "no end-to-end test mentions '%s'" % name


CHECKS = [layers, quiet, lengths, headers, markers, paths, arch, commands]


def main(name, root):
    check = {check.__name__: check for check in CHECKS}[name]
    found = list(check(root))
    for path, number, what in found:
        print("%s:%d: %s" % (path, number, what))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
