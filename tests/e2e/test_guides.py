"""The guides name what is there, and nothing that is not."""
import glob
import os
import re

import harness

DOCS = os.path.join(harness.ROOT, "docs")


def read(*path):
    with open(os.path.join(harness.ROOT, *path), encoding="utf-8") as file:
        return file.read()


def test_every_command_is_in_the_reference():
    names = re.findall(r"^PB_COMMAND\((\w+)\)", read("src", "cli", "commands.def"), re.M)
    text = read("docs", "api-reference.md")
    assert names and [name for name in names if "`%s`" % name not in text] == []


def test_commands_in_the_guides_exist(probing):
    """Each `probing … WORD` in a code block: the word is a command, or its answer is shown."""
    known = set(re.findall(r"^PB_COMMAND\((\w+)\)", read("src", "cli", "commands.def"), re.M))
    known |= {"run"}
    for name in ("quickstart.md", "user-guide.md", "api-reference.md"):
        text = read("docs", name)
        for line in re.findall(r"^\$? ?(?:\w+=\S+ )?probing (.*)$", text, re.M):
            words = [word for word in line.split() if not word.startswith("-")]
            words = words[1:] if re.match(r"\d|job:|host|HOST|\S+:\d+", words[0]) else words
            if words[0].startswith('"'):
                continue
            assert words[0] in known or "no command '%s'" % words[0] in text, (name, line)


def test_links_lead_somewhere():
    for path in glob.glob(os.path.join(DOCS, "*.md")) + [os.path.join(harness.ROOT, "README.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", read(path)):
            assert os.path.exists(os.path.join(os.path.dirname(path), link)), (path, link)


def test_the_name_on_the_index_is_another_s():
    for path in glob.glob(os.path.join(DOCS, "*.md")) + [os.path.join(harness.ROOT, "README.md")]:
        assert "pip install probing" not in read(path), path
