"""The environment of another user's ranks sends root nowhere: not by ssh, not with its token."""
import os

import nodes
from strangers import FIRST, Stranger, needs_root

pytestmark = needs_root


def test_hosts_that_a_strangers_rank_names(start, tmp_path):
    called, ssh = tmp_path / "called", tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\necho \"$@\" >>%s\nexit 255\n" % called)
    ssh.chmod(0o755)
    start(Stranger, FIRST, "probed.py",
          env={"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "192.0.2.7",
               "MASTER_PORT": "29500"})
    root = nodes.Node(tmp_path, PROBING_SSH=ssh)
    try:
        done = root("cluster", "attach", timeout=120)
        assert done.returncode == 4 and "192.0.2.7" not in done.stdout + done.stderr, done
        assert not os.path.exists(str(called))
    finally:
        root.stop()
