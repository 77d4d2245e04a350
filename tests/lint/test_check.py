"""Each check finds the fault it is there for, and nothing in a tree without faults."""
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check  # noqa: E402

HEADER = """/*
 * good.h - an example.
 *
 * Owns: nothing. Threads: any. Fails: never.
 */
#ifndef PB_HOST_GOOD_H
#define PB_HOST_GOOD_H
#endif
"""
GOOD = {
    "src/base/err.h": HEADER.replace("HOST_GOOD", "BASE_ERR"),
    "src/host/good.h": HEADER,
    "src/host/good.c": '#include "host/good.h"\n#include "base/err.h"\n\nint f(void)\n{\n}\n',
    "src/base/text.c": '/* exit(1) */ static const char *s = "abort()";\nint snprintf(void);\n',
    "src/cli/commands.def": "PB_COMMAND(list)\n",
    "docs/good.md": "`commands.def`, `host/good.c`\n```\ncat host/any.c\n```\n",
    "src/cli/commands/list.c": "const struct pb_cmd pb_cmd_list = {\n};\n",
    "src/cli/names.c": "/* as f() in good.h and host/good.c */\nextern const char *const list[];\n"
                       "static int one;\nstruct pb_one;\nconst int two = 2;\n",
    "src/host/used.c": "int pb_used(void)\n{\n}\n\nint pb_pasted_one(void)\n{\n}\n",
    "src/host/uses.c": "#define ALL(x) pb_pasted_##x()\nstatic int g(void)\n{\n    pb_used();\n}\n",
    "src/host/arch/x86_64.c": "#ifdef __x86_64__\n#endif\n",
    "tests/e2e/test_list.py": 'probing("list")\n',
}
MARK = "TO" + "DO"
FAULTS = {
    "layers": [("src/host/bad.c", '#include "display/print.h"\n'),
               ("src/base/bad.c", '#include "host/good.h"\n'),
               ("src/host/bad.c", '#include "../display/print.h"\n'),
               ("src/host/bad.c", '#include "good.h"\n'),
               ("src/agent/bad.c", '#include "host/good.h"\n'),
               ("src/cli/bad.c", '#include "node/sql/engine.h"\n')],
    "quiet": [("src/base/bad.c", "void f(void)\n{\n    abort();\n}\n"),
              ("src/agent/py/bad.c", 'printf("x");\n'),
              ("src/store/writer.c", "p = malloc(3);\n")],
    "lengths": [("src/host/bad.c", "int f(int a,\n      int b)\n{\n" + "    a++;\n" * 80 + "}\n"),
                ("src/host/bad.c", "int a;\n" * 601),
                ("src/host/bad.c", "/* " + "x" * 100 + " */\n")],
    "headers": [("src/host/bad.h", "#ifndef PB_HOST_BAD_H\n#endif\n"),
                ("src/host/bad.h", HEADER.replace("Threads: any. ", "").replace("GOOD", "BAD")),
                ("src/host/bad.h", HEADER)],
    "markers": [("docs/bad.md", "later: %s\n" % MARK), ("src/host/bad.c", "/* %s: x */\n" % MARK)],
    "paths": [("tests/bad.py", "open('/ro" "ot/x')\n"), ("docs/bad.md", "see /ho" "me/me\n")],
    "arch": [("src/stack/bad.c", "#if defined(__aarch64__)\n#endif\n")],
    "versions": [("src/stack/bad.c", "if (py->minor >= 12)\n")],
    "commands": [("src/cli/commands.def", "PB_COMMAND(list)\nPB_COMMAND(other)\n"),
                 ("src/cli/commands/list.c", "int x;\n"), ("tests/e2e/test_list.py", "\n")],
    "circles": [("src/host/x/bad.c", '#include "host/good.h"\n'
                 '#include "host/y/bad.h"\n', "src/host/y/bad.h", '#include "host/x/bad.c"\n'),
                ("src/host/x/bad.h", '#include "host/good.h"\n',
                 "src/host/bad.c", '#include "host/x/bad.h"\n')],
    "mutables": [("src/host/bad.h", "extern int pb_bad;\n"),
                ("src/host/bad.c", "const char *pb_bad;\n"),
                ("src/host/bad.c", "struct pb_bad pb_bad[3] = {{0}};\n")],
    "promises": [("SECURITY.md", "| `unit/host/test_nothing` |\n"),
                 ("SECURITY.md", "| `fuzz_nothing` |\n")],
    "comments": [("src/host/bad.c", "/* see nowhere.h */\n"),
                 ("src/host/bad.def", "/* docs/nowhere.yaml lists the same. */\n"),
                 ("src/host/bad.c", "/* see host/text.c */\n"),
                 ("src/host/bad.h", "/*\n * As pb_bad() does.\n */\n"),
                 ("src/host/bad.c", "/* called by gone() */\n")],
    "fields": [("src/host/bad.h", "struct pb_bad {\n    int a;\n    int b; /* the same */\n};\n"),
               ("src/host/bad.h", "    pid_t pid; /* that is looked at */\n"),
               ("src/host/bad.c", '    X(lineno, INT, "", "its line")   \\\n'),
               ("src/host/bad.c", '    X(a_mb, REAL, "MB",    \\\n      "of it used")   \\\n'),
               ("share/views/bad.sql", "--   lineno  INT   and line\n"),
               ("share/views/bad.sql", "--   all_ms  REAL  ms   the same with what it calls\n")],
    "documents": [("docs/bad.md", "as in `host/gone.c`\n"), ("docs/bad.md", "`gone.def`\n")],
    "crowds": [tuple(word for at in range(26) for word in ("src/host/x/%d.c" % at, "int x;\n"))],
    "rooms": [("docs/architecture.md", "| `src/base` | x |\n| `src/host` | x |\n"),
              ("docs/architecture.md", "| `src/base` |\n| `src/host` |\n| `src/cli` |\n",
               "src/node/attic/x.c", "\n")],
    "words": [("src/host/bad.h", "int pb_weigh(void);\n"), ("src/host/bad.c", "int let_go;\n"),
              ("src/host/bad.c", "/* A sample\n * weighs its time. */\n")],
    "unused": [("src/host/bad.c", "int pb_bad(void)\n{\n}\n",
                "src/host/bad.h", "int pb_bad(void);\n"),
               ("src/host/bad.c", "int pb_bad(void)\n{\n}\n",
                "tests/unit/host/test_bad.c", "pb_bad();\n")],
    "sleeps": [("tests/e2e/test_bad.py", "import time\n\ndef f():\n    time.sleep(1)\n"
                "    assert time\n")],
    "names": [("tests/e2e/test_bad.py", "from os import path\n\ndef f():\n    return os.sep\n")],
}


class Checks(unittest.TestCase):
    def run_check(self, name, extra=()):
        with tempfile.TemporaryDirectory() as root:
            pairs = list(zip(extra[::2], extra[1::2]))
            for path, text in list(GOOD.items()) + pairs:
                full = os.path.join(root, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8") as file:
                    file.write(text)
            return list(getattr(check, name)(root))

    def test_clean_tree(self):
        for name in FAULTS:
            self.assertEqual(self.run_check(name), [], name)

    def test_faults_are_found(self):
        for name, faults in FAULTS.items():
            for fault in faults:
                self.assertTrue(self.run_check(name, fault), (name, fault))

    def test_every_check_is_tested(self):
        self.assertEqual(sorted(FAULTS), sorted(found.__name__ for found in check.CHECKS))


if __name__ == "__main__":
    unittest.main()
