"""Programs of the kinds that other tools are tested with, against what they say themselves."""
import json
import os

import pytest

import embedding
from harness import Script, backtrace, frames, main_thread, natives, order, probing


def test_calls_of_every_shape(py, start, tmp_path):
    """Functions, files and lines are what the program itself sees."""
    target = start(Script, py, "shapes.py", tmp_path / "own.json")
    own = json.loads((tmp_path / "own.json").read_text(encoding="utf-8"))
    for options in ([], ["-n", "--limit=0"], ["--no-pause"], ["--pause"]):
        found = frames(main_thread(backtrace(target.pid, *options)))
        assert [[name.rpartition(".")[2], file] for name, file, _line in found] == [
            [name, file] for name, file, _line in own], options
        # The innermost one has gone on from where it looked.
        assert [line for _, _, line in found[1:]] == [line for _, _, line in own[1:]], options
    assert len(own) > 45


def test_extension_module(py, start, tmp_path):
    library = embedding.build_module(py, tmp_path, "extension.c", "probing_extension")
    target = start(Script, py, "extending.py", os.path.dirname(library))
    thread = main_thread(backtrace(target.pid, "-n"))
    assert frames(thread) == [target.at("leaf", "leaf"), target.at("middle", "middle"),
                              target.at("main", "main"), target.at("<module>", "module")]
    names = order(thread)
    for function, inner, outer in (("[probing_call_deep]", "leaf", "middle"),
                                   ("[probing_call_back]", "middle", "main")):
        assert names.index(inner) < names.index(function) < names.index(outer)
    assert natives(thread).count("deeper") == 6


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_multiprocessing(py, shared, method):
    target = shared("workers.py", method)
    answer = probing(target.pid, "backtrace", "-s", "-f", "json")
    assert answer.returncode == 0, answer.stderr
    found = {line["pid"]: line for line in map(json.loads, answer.stdout.splitlines())}
    assert set(target.extra) <= set(found)
    for pid in target.extra:
        own = frames(main_thread(found[pid]))
        assert [own[0]] == [target.at("work", "work")]
        assert found[pid]["parent"] in found
    assert frames(main_thread(found[target.pid]))[0] == target.at("main", "main")
