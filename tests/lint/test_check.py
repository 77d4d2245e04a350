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
    "src/base/text.c": '/* exit() */ const char *s = "abort()";\nint snprintf(void);\n',
    "src/cli/commands.def": "PB_COMMAND(list)\n",
    "src/cli/list.c": "const struct pb_cmd pb_cmd_list = {\n};\n",
    "src/host/arch/x86_64.c": "#ifdef __x86_64__\n#endif\n",
    "tests/e2e/test_list.py": 'probing("list")\n',
}
MARK = "TO" + "DO"
FAULTS = {
    "layers": [("src/host/bad.c", '#include "show/print.h"\n'),
               ("src/base/bad.c", '#include "host/good.h"\n'),
               ("src/host/bad.c", '#include "../show/print.h"\n'),
               ("src/host/bad.c", '#include "good.h"\n'),
               ("src/agent/bad.c", '#include "host/good.h"\n')],
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
    "arch": [("src/unwind/bad.c", "#if defined(__aarch64__)\n#endif\n")],
    "commands": [("src/cli/commands.def", "PB_COMMAND(list)\nPB_COMMAND(other)\n"),
                 ("src/cli/list.c", "int x;\n"), ("tests/e2e/test_list.py", "\n")],
}


class Checks(unittest.TestCase):
    def run_check(self, name, extra=()):
        with tempfile.TemporaryDirectory() as root:
            for path, text in list(GOOD.items()) + list(extra):
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
                self.assertTrue(self.run_check(name, [fault]), (name, fault))

    def test_every_check_is_tested(self):
        self.assertEqual(sorted(FAULTS), sorted(found.__name__ for found in check.CHECKS))


if __name__ == "__main__":
    unittest.main()
