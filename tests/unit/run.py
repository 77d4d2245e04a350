"""
Runs what ctest knows: unit, lint and bounded fuzz tests; then once more what failed
(second_look.py).
usage: run.py PRESET JOBS FLAKY_FILE; that file gets a JSON object of the flaky ones.
"""
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
import second_look  # noqa: E402

TELLING = re.compile(r"error: |Error: |FAIL|[Aa]ssert|Sanitizer|limit")


def reason(case):
    """The line that says most of why a test failed."""
    text = (case.findtext("system-out") or "").strip().splitlines()
    telling = [line.strip() for line in text if TELLING.search(line)]
    status = case.find("failure")
    return (telling or text[-1:] or [status.get("message", "") if status is not None else ""])[0]


def ctest(preset, options):
    """{name: why} of the tests that failed; ctest's own failure is one, too."""
    report = os.path.join(ROOT, "build", "ctest.xml")
    if os.path.exists(report):
        os.unlink(report)
    status = subprocess.call(["ctest", "--preset", preset, "--output-junit", report] + options,
                             cwd=ROOT)
    if status == 0:
        return {}
    try:
        cases = xml.etree.ElementTree.parse(report).getroot().iter("testcase")
        failed = {case.get("name"): reason(case) for case in cases if case.get("status") == "fail"}
    except (OSError, xml.etree.ElementTree.ParseError):
        failed = {}
    return failed or {"ctest": "exit status %d" % status}


def main(preset, jobs, flaky_file):
    failed, flaky = ctest(preset, ["-j", jobs]), {}
    again = second_look.allowed(failed)
    if again and "ctest" not in failed:
        print("once more, alone: %s" % " ".join(again), flush=True)
        pattern = "^(%s)$" % "|".join(map(re.escape, again))
        still = ctest(preset, ["-R", pattern])
        flaky = {} if "ctest" in still else {name: failed[name] for name in again
                                             if name not in still}
    with open(flaky_file, "w") as file:
        json.dump(flaky, file)
    return 1 if len(failed) > len(flaky) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
