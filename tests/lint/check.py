"""Checks of the source tree. usage: check.py CHECK ROOT; prints file:line: what, exit 1 if any."""
import ast
import builtins
import collections
import dis
import os
import re
import sys

LAYERS = ["base", "store", "schema", "cpython", "host", "cluster", "stack", "heap", "recording",
          "inject", "agent", "display", "node", "cli"]
# What may be included beside lower layers and the layer itself is nothing; store and host
# know nothing of each other's insides, the agent nothing of the outside.
FORBIDDEN = {"agent": {"host", "cluster", "inject", "stack", "heap", "recording"}}
# What a command may see of the node.
NODE_DOORS = {"node/node.h", "node/access/token.h", "node/http/server.h", "node/query/ended.h",
              "node/query/query.h", "node/serve/serve.h"}
LIMIT_FUNCTION, LIMIT_FILE, LIMIT_LINE, LIMIT_FOLDER = 80, 600, 100, 25


def files(root, *endings, under=("src", "tests", "tools", "examples", "docs", "share", "python",
                                   "web")):
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
            elif own == "cli" and layer == "node" and target not in NODE_DOORS:
                yield path, number, "a command has no business in " + target
            elif layer not in LAYERS and os.path.exists(
                    os.path.join(root, os.path.dirname(path), target)):
                yield path, number, "write the include from src on: " + target


QUIET = re.compile(r"\b(exit|_exit|abort|assert|printf|fprintf|puts|putchar|perror|fputs|malloc"
                   r"|calloc|realloc)\s*\(")


def quiet(root):
    """What may live inside a target never ends it, prints or allocates."""
    inside = ("src/base", "src/agent", "src/store", "src/schema", "src/cpython")
    for path, text in files(root, ".c", ".h", under=inside):
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
    for path, text in files(root, ".c", ".h", ".py", ".ts", ".tsx", ".mjs", ".css",
                            under=("src", "tests", "web")):
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
    for path, text in files(root, ".c", ".h", ".def", ".py", ".txt", ".md", ".sh", ".cmake",
                            ".ts", ".tsx", ".mjs", ".css"):
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


PYTHON = re.compile(r"(?:->|\.)minor\s*(?:[<>]=?|[=!]=)\s*[1-9]|\bPB_PY_NEWEST\b")


def versions(root):
    """What differs between Python versions stands in the file of each, and is asked for by name."""
    for path, text in files(root, ".c", ".h", under=("src",)):
        if path.startswith(os.path.join("src", "cpython")):
            continue
        for number, line in numbered(code_only(text)):
            if PYTHON.search(line):
                yield path, number, "a version of Python: say what differs, in its .def file"


def commands(root):
    """Every command has a file of its name, a descriptor in it and an end-to-end test."""
    path = os.path.join("src", "cli", "commands.def")
    tests = "\n".join(text for _, text in files(root, ".py", under=("tests/e2e",)))
    for number, line in numbered(read(os.path.join(root, path))):
        match = re.match(r"PB_COMMAND\((\w+)\)", line)
        if not match:
            continue
        name = match.group(1)
        found = [source for source in (os.path.join(root, "src", "cli", folder, name + ".c")
                                       for folder in ("commands", "manual"))
                 if os.path.exists(source)]
        if not found:
            yield path, number, "no src/cli/commands/%s.c" % name
        elif "const struct pb_cmd pb_cmd_%s = {" % name not in read(found[0]):
            yield path, number, "no descriptor pb_cmd_%s in %s.c" % (name, name)
        if not re.search(r"[\"']%s[\"']" % name, tests):
            yield path, number, "no end-to-end test mentions '%s'" % name


def includes_of_folders(root):
    """{folder: {folder that it includes: (file, line)}}, both below src."""
    graph = {}
    for path, text in files(root, ".c", ".h", ".def", under=("src",)):
        own = os.path.dirname(path)[len("src/"):]
        for number, line in numbered(text):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            other = os.path.dirname(match.group(1)) if match else own
            if other != own and os.path.exists(os.path.join(root, "src", match.group(1))):
                graph.setdefault(own, {}).setdefault(other, (path, number))
    return graph


def reachable(graph, start):
    seen, todo = set(), [start]
    while todo:
        for other in graph.get(todo.pop(), ()):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


# The parts of one struct (torch.h), which are not objects of their own.
KNOT = "agent/torch"


def circles(root):
    """No folder includes another that includes it, by however many steps."""
    graph = includes_of_folders(root)
    reach = {folder: reachable(graph, folder) for folder in graph}
    for folder in sorted(graph):
        circle = {other for other in reach[folder] if folder in reach.get(other, ())}
        for other in sorted(circle & set(graph[folder])):
            if folder.startswith(KNOT) and other.startswith(KNOT):
                continue
            yield graph[folder][other] + ("%s and %s include each other" % (folder, other),)


KNOWN_GLOBALS = {"pb_nodelink_cancelled"}
# A definition or declaration at file scope that is neither static, const, a type nor a function.
GLOBAL = re.compile(r"^(?!static\b|typedef\b|return\b|goto\b|else\b|#)(?:extern\s+)?"
                    r"((?:[A-Za-z_]\w*[\s*]+)+)(\w+)\s*(?:\[[^;=]*\])*\s*[=;]")
FUNCTION_TYPE = re.compile(r"^typedef\b[^;]*?\b(\w+)\s*\([^*;]", re.M)


def is_constant(words, line):
    pointer = "*" in words
    return re.search(r"\*\s*const\s*$", words) if pointer else "const" in line.split()


def mutables(root):
    """No variable that can change is seen by more than one file."""
    found = [(path, code_only(text)) for path, text in files(root, ".c", ".h", under=("src",))]
    functions_ = {name for _, code in found for name in FUNCTION_TYPE.findall(code)}
    for path, code in found:
        for number, line in numbered(code):
            match = GLOBAL.match(line)
            if (match and match.group(2) not in KNOWN_GLOBALS
                    and match.group(1).strip() not in functions_
                    and not re.match(r"(?:struct|enum|union)\s+\w+;", line)
                    and not is_constant(match.group(1), line)):
                yield path, number, "%s can be changed from other files" % match.group(2)


# What comments name that is not in this tree: the C library's, CPython's, the engine's.
FOREIGN = {"Python.h", "errno.h", "count_star", "set_epoch", "isprintable", "get_ident",
           "versions/3_N.def", "docs/adding-a-python-version.md"}
FILE_NAME = re.compile(r"(?:docs|share|tests|tools|web)/[\w/.-]+\.\w+|"
                       r"[\w/-]*\w\.(?:c|h|def|S|js|md|sql)\b")
IDENTIFIER = re.compile(r"\b(?:pb_|PB_)\w*\w\b(?!\*)|\b[a-z_]\w+(?=\(\))")


def words_of_code(root):
    words = set()
    for path, text in files(root, ".c", ".h", ".def", ".S", ".py", ".txt", under=("src",)):
        own = text if path.endswith((".py", ".txt")) else code_only(text)
        words.update(re.findall(r"\w+", own))
        words.update(re.findall(r"\w+", " ".join(re.findall(r'"(?:\\.|[^"\\\n])*"', text))))
    return words


def comments(root):
    """What a comment names exists: files, and identifiers of ours."""
    paths_ = ["/" + path for path, _ in files(root, "")]
    words = words_of_code(root)
    for path, text in files(root, ".c", ".h", ".def", under=("src",)):
        for match in re.finditer(r"/\*.*?\*/", text, flags=re.S):
            first = text.count("\n", 0, match.start()) + 1
            for offset, line in enumerate(match.group().split("\n")):
                for name in FILE_NAME.findall(line):
                    if name not in FOREIGN and not any(full.endswith("/" + name.lstrip("/"))
                                                       for full in paths_):
                        yield path, first + offset, "there is no file " + name
                for name in IDENTIFIER.findall(line):
                    if name not in words | FOREIGN and not name.endswith("_"):
                        yield path, first + offset, "there is no " + name


NAMED_FILE = re.compile(r"(?<![\w<{*.…-])[\w/.-]*\w/[\w.-]+\.(?:c|h|def|py|S|ts|tsx|sql|md)\b"
                        r"|\b\w+\.(?:c|h|def)\b")


LEANING = re.compile(r"[;,]\s*/\* (the same\b|and |likewise|that |of that|of it\b|of them\b)")
# The description of a column in C, or of a view in SQL: DESCRIBE shows it alone.
COLUMN = re.compile(r'\bX\(\w+, [A-Z]+, "[^"]*",[\s\\]*"([^"]*)|'
                    r'^--   \w+ +[A-Z]+ +(?:\S+ +)?  (.*)', re.M)
LEANS = re.compile(r"and |its |their |the same\b|that |those |likewise|over a|(?:in|of) (?:it|them|"
                   r"that|those|five|the \w+ one)\b")


def fields(root):
    """The comment of a field or column makes sense without the one above it."""
    for path, text in files(root, ".c", ".h", ".sql", under=("src", "share")):
        for match in COLUMN.finditer(text):
            said = match.group(1) or match.group(2) or ""
            if LEANS.match(said):
                yield (path, text.count("\n", 0, match.start()) + 1,
                       "a column's description begins as '%s'" % said[:20])
    for path, text in files(root, ".h", under=("src",)):
        for number, line in numbered(text):
            match = LEANING.search(line)
            if match and line.startswith(" "):
                yield path, number, "a field's comment begins with '%s'" % match.group(1).strip()


def documents(root):
    """A file that a page names exists; walkthroughs make new ones, examples are passed over."""
    paths_ = ["/" + path for path, _ in files(root, "")]
    pages = [(name, read(os.path.join(root, name)))
             for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")
             if os.path.exists(os.path.join(root, name))]
    for path, text in pages + list(files(root, ".md", under=("docs",))):
        if os.path.basename(path).startswith("adding-a-"):
            continue
        text = re.sub(r"(?ms)^```.*?^```", lambda m: re.sub(r"[^\n]", "", m.group()), text)
        for number, line in numbered(text):
            for name in NAMED_FILE.findall(" ".join(re.findall(r"`([^`]+)`", line))):
                if not any(full.endswith("/" + name.lstrip("/")) for full in paths_):
                    yield path, number, "there is no file " + name


def crowds(root):
    """A folder of the sources that nobody can take in at a glance has rooms."""
    for path, _, found in os.walk(os.path.join(root, "src")):
        if len(found) > LIMIT_FOLDER:
            yield os.path.relpath(path, root), 1, "%d files (limit %d)" % (
                len(found), LIMIT_FOLDER)


def rooms(root):
    """architecture.md has a row for each layer, and one for each room of the node."""
    doc = os.path.join("docs", "architecture.md")
    path = os.path.join(root, doc)
    text = read(path) if os.path.exists(path) else ""
    for layer in sorted(os.listdir(os.path.join(root, "src"))) if text else ():
        if os.path.isdir(os.path.join(root, "src", layer)) and "| `src/%s` |" % layer not in text:
            yield doc, 1, "no row for the layer src/" + layer
    node = os.path.join(root, "src", "node")
    for room in sorted(os.listdir(node)) if text and os.path.isdir(node) else ():
        if os.path.isdir(os.path.join(node, room)) and "| `%s` |" % room not in text:
            yield doc, 1, "no row for the room src/node/" + room


def promises(root):
    """Tests and fuzzers that SECURITY.md names exist."""
    paths_ = ["/" + path for path, _ in files(root, "", under=("tests",))]
    doc = os.path.join(root, "SECURITY.md")
    for number, line in numbered(read(doc) if os.path.exists(doc) else ""):
        for name in re.findall(r"`((?:unit|e2e|sanitize)/[\w/]+|fuzz_\w+)`", line):
            ends = ["/%s.c" % name, "/%s.py" % name]
            if not any(full.endswith(end) for full in paths_ for end in ends):
                yield "SECURITY.md", number, "there is no test " + name


# Words of a private dialect; what the field calls it.
DIALECT = {"otherwise": "default", "weigh": "measure", "weighed": "measured", "brake": "budget",
           "hurry": "priority", "seat": "slot", "seats": "slots", "places": "what they are",
           "let_go": "release_ and what it is", "hole": "gap", "feeder": "data loader"}
DIALECT_NAME = re.compile(r"\b(?:\w*_)?(%s)(?:_\w*)?\b" % "|".join(DIALECT))


DIALECT_TEXT = {"weigh": "measure, weight", "brake": "budget", "hurry": "priority", "seat": "slot",
                "feeder": "data loader", "let go": "release", "under lock": "with … held"}
DIALECT_SAID = re.compile(r"\b(%s)(?:s|ed)?\b" % "|".join(DIALECT_TEXT), re.I)


def words(root):
    """Names are words of the field, and so is what comments say."""
    for path, text in files(root, ".c", ".h", ".def", under=("src",)):
        code = code_only(text)
        for match in DIALECT_NAME.finditer(code):
            yield path, code.count("\n", 0, match.start()) + 1, "%s: say %s" % (
                match.group(), DIALECT[match.group(1)])
        for comment in re.finditer(r"/\*.*?\*/", text, flags=re.S):
            for match in DIALECT_SAID.finditer(comment.group()):
                place = comment.start() + match.start()
                yield path, text.count("\n", 0, place) + 1, "%s: say %s" % (
                    match.group(), DIALECT_TEXT[match.group(1).lower()])


# What tests look at to see that a ring is as it should be.
FOR_TESTS = {"pb_ring_bytes", "pb_ring_wants", "pb_reader_text", "pb_reader_unnamed"}


def unused(root):
    """Every function is called by the tool, the agent or an example, not by tests alone."""
    defined, sources, headers_, pasted = {}, collections.Counter(), collections.Counter(), set()
    for path, text in files(root, ".c", ".h", ".def", ".S", ".map", under=("src", "examples")):
        code = code_only(text) if path.endswith((".c", ".h")) else text
        (headers_ if path.endswith(".h") else sources).update(re.findall(r"\w+", code))
        pasted.update(re.findall(r"(\w+_)##", code))
        if path.endswith(".c"):
            defined.update((name, (path, number)) for name, number, _ in functions(text)
                           if name.startswith("pb_"))
    for name, place in sorted(defined.items()):
        called = sources[name] > 1 or headers_[name] > 1 or name.startswith(tuple(pasted))
        if not called and name not in FOR_TESTS:
            yield place + ("%s is called by nobody but tests" % name,)


def codes(code):
    yield code
    for const in code.co_consts:
        if hasattr(const, "co_code"):
            yield from codes(const)


def names(root):
    """A name that a function in Python looks up in its module is there, or built in."""
    for path, text in files(root, ".py", under=("tests", "tools", "examples", "python")):
        module = compile(text, path, "exec", dont_inherit=True)
        asked, known = {}, set(dir(builtins)) | {"__file__", "__path__"}
        for code in codes(module):
            for it in dis.get_instructions(code):
                if it.opname == "STORE_GLOBAL" or code is module and it.opname == "STORE_NAME":
                    known.add(it.argval)
                elif it.opname == "LOAD_GLOBAL":
                    asked.setdefault(it.argval, code.co_firstlineno)
        if "import *" not in text:
            for name in sorted(set(asked) - known):
                yield path, asked[name], "nobody knows the name " + name


def blocks(tree):
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            if isinstance(getattr(node, field, None), list):
                yield getattr(node, field)


def is_sleep(statement):
    call = getattr(statement, "value", None)
    return (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
            and call.func.attr == "sleep")


def sleeps(root):
    """A test waits for what it expects (patience.py), not for a while."""
    for path, text in files(root, ".py", under=("tests/e2e",)):
        for block in blocks(ast.parse(text, path)):
            for this, after in zip(block, block[1:]):
                if is_sleep(this) and any(isinstance(it, ast.Assert) for it in ast.walk(after)):
                    yield path, this.lineno, "sleeps before an assertion: patience.until"


CHECKS = [layers, quiet, lengths, headers, markers, paths, arch, versions, commands, circles,
          mutables, comments, fields, documents, rooms, crowds, promises, words, unused,
          names, sleeps]


def main(name, root):
    check = {check.__name__: check for check in CHECKS}[name]
    found = list(check(root))
    for path, number, what in found:
        print("%s:%d: %s" % (path, number, what))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
