"""memory --torch: live blocks of CUDA's allocator, of which there are the answers alone."""
import json
import os
import pickle
import subprocess

import pytest

import torches
from harness import TARGETS, Target, probing

KB = 1 << 10
# torch's own reader of such files: its checks, its list of blocks, and the pages it makes.
VIEWER = """
import pickle, sys
from torch.cuda import _memory_viz as viewer
data = pickle.load(open(sys.argv[1], "rb"))
print(viewer.segsum(data))
print(*("<html" in page or "<script" in page
        for page in (viewer.trace_plot(data), viewer.segment_plot(data))))
"""
pytestmark = pytest.mark.skipif(not torches.pythons(), reason="no interpreter with torch")


@pytest.fixture(scope="module", params=torches.pythons(), ids=str)
def device(request):
    target = Target([request.param, os.path.join(TARGETS, "torch_blocks.py")])
    target.python = request.param
    yield target
    target.stop()


def blocks(target, *options):
    answer = probing(target.pid, "memory", "--torch", "--json", *options)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout.split("\n")[0])


def test_whose_blocks_they_are(device):
    look = blocks(device)
    assert look["allocated"] == 1312 * KB and look["blocks"] == 5
    assert look["reserved"] == 1504 * KB and look["waiting"] == 64 * KB
    known = {(row["kind"], row["module"]): row["bytes"] for row in look["sites"]}
    assert known["parameter", "first.weight"] == 16 * KB
    assert known["parameter", "second.weight"] == 16 * KB
    assert known["", ""] == 1280 * KB, "nothing was recorded, so that no line is known"


def test_which_lines_asked_for_them(device):
    look = blocks(device, "-d", "0.2")
    by_line = {row["func"]: row for row in look["sites"]}
    assert by_line["keep"]["bytes"] == 1024 * KB and by_line["keep"]["blocks"] == 2
    assert by_line["forward"]["bytes"] == 256 * KB
    assert by_line["forward"]["module"] == "Block" and by_line["forward"]["kind"] == "tensor"
    assert os.path.basename(by_line["forward"]["file"]) == "torch_blocks.py", "not torch's own line"
    assert "keep" not in {row["func"] for row in blocks(device)["sites"]}, "recording has ended"


def test_text_and_the_file_for_torchs_own_viewer(device, tmp_path):
    path = tmp_path / "snapshot.pickle"
    answer = probing(device.pid, "memory", "--torch", "-d", "0.1", "-o", str(path))
    assert answer.returncode == 0, answer.stderr
    assert "1.28 MB in 5 blocks, 1.47 MB held" in answer.stdout
    assert "keep" in answer.stdout and "in first.weight" in answer.stdout
    data = path.read_bytes()
    assert data[:2] == b"\x80\x04", "the viewer in a browser reads protocol 4"
    assert sum(one["total_size"] for one in pickle.loads(data)["segments"]) == 1504 * KB
    shown = subprocess.run([device.python, "-c", VIEWER, str(path)], check=True,
                           stdout=subprocess.PIPE, encoding="utf-8").stdout
    assert "1.5MiB" in shown and "True True" in shown, shown


def test_refusals(start):
    plain = start(Target, [torches.python(), os.path.join(TARGETS, "torch_blocks.py"),
                           "cpu"])
    answer = probing(plain.pid, "memory", "--torch")
    assert answer.returncode == 1 and "does not use CUDA" in answer.stderr
