"""Secrets of a job are shown by nothing that shows the job, unless its owner asks for them."""
import glob
import json
import os

import pytest

import harness
import patience
import querying

LOCALS = ("in-a-local", "in-bytes", "in-a-dict", "in-a-url")
WORDS = ("on-the-line", "two words", "behind-equals", "in-a-query", "0123456789abcdefghijABCDEF")
LINE = ["--password", "on-the-line", "--db-secret", "two words", "--api-key=behind-equals",
        "http://h/?token=in-a-query", "hf_0123456789abcdefghijABCDEF", "--tokenizer", "gpt2"]


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    it = querying.Node(tmp_path_factory.mktemp("secrets"))
    yield it
    it.stop()


@pytest.fixture
def job(any_py, start):
    return start(harness.Script, any_py, "keeper.py", *LINE,
                 env={"DATABASE": "postgres://me:in-the-environment@db/x", "WANDB_API_KEY": "w4ndb",
                      "OPTS": "--password in-options"})


def hides(text, secrets):
    return not [secret for secret in secrets if secret in text]


def test_stacks(job, node):
    for words in (["-l"], ["-l", "-f", "json"], ["-l", "-a"]):
        text = node.text(job.pid, "backtrace", *words)
        assert hides(text, LOCALS) and "50256" in text and "***" in text, text
        text = node.text(job.pid, "backtrace", "--secrets", *words)
        assert not [secret for secret in LOCALS if secret not in text], text
    for table in ("python.backtrace", "python.stacks"):
        rows = node.rows("SELECT locals FROM %s WHERE func = 'connect'" % table, target=job.pid)
        said = json.loads(rows[0]["locals"])
        assert hides(rows[0]["locals"], LOCALS)
        assert (said["password"], said["token"]) == ("***", "50256")
        assert "'user': 'me'" in said["settings"]


def test_who_is_waited_for(any_py, start, node):
    """The other end of a pipe is named by its command line."""
    job = start(harness.Script, any_py, "reads_child.py")
    job.settle()
    text = node.text(job.pid, "query", "-f", "csv", "SELECT * FROM python.waits")
    assert "sleep 600 >&-; true --password ***" in text and hides(text, WORDS), text


def test_command_lines(job, node):
    answers = [node.text("list", "-f", form) for form in ("table", "json", "csv")]
    answers.append(node.text("query", "-f", "csv", "SELECT command FROM system.process"))
    answers.append(node.text(job.pid, "memory"))
    for text in answers[:4]:
        assert "keeper.py --password *** --db-secret *** --api-key=***" in text, text
        assert "--tokenizer gpt2" in text, text
    for text in answers:
        assert hides(text, WORDS), text
    argv = [item["argv"] for item in json.loads(answers[1]) if item["pid"] == job.pid][0]
    assert argv[2:7] == ["--password", "***", "--db-secret", "***", "--api-key=***"]


def test_what_a_dead_one_left(any_py, start, node):
    """Its meta holds the command line."""
    job = start(harness.Script, any_py, "keeper.py", *LINE)
    node.text(job.pid, "inject")
    patience.until(lambda: node.rows("SELECT 1 FROM python.memory", target=job.pid))
    job.stop()
    for form in ("table", "json", "csv"):
        text = node.text("list", "--dead", "-f", form)
        assert "keeper.py" in text and hides(text, ["on-the-line", "behind-equals"]), text
    querying.forget(job.pid)


def test_environment(job, node):
    rows = node.rows("SELECT name, value FROM python.envs", target=job.pid)
    said = {row["name"]: row["value"] for row in rows}
    assert said["DATABASE"] == "postgres://me:***@db/x" and said["WANDB_API_KEY"] == "***"
    assert said["OPTS"] == "--password ***"


def test_code_that_was_evaluated(any_py, start, node):
    """In probing.audit, while the process lives and out of history; what is no secret stays."""
    job = start(harness.Script, any_py, "keeper.py")
    node.text(job.pid, "inject")
    code = "password = 'in-code'; x = 'hf_0123456789abcdefghijABCDEF'; token_count = 7"
    assert node.text(job.pid, "eval", code) == ""
    sql = "SELECT detail FROM probing.audit WHERE action = 'eval'"
    shown = "password = '***'; x = '***'; token_count = 7"
    patience.until(lambda: node.rows(sql, target=job.pid) == [{"detail": shown}])
    job.stop()
    patience.until(lambda: files_of_history(node, "probing.audit"))
    assert node.rows(sql, target=job.pid) == [{"detail": shown}]
    for path in files_of_history(node, "probing.audit"):
        with open(path, "rb") as file:
            data = file.read()
        assert b"in-code" not in data and b"hf_0123" not in data
    querying.forget(job.pid)


def files_of_history(node, table):
    return glob.glob(os.path.join(node.env["PROBING_HOME"], "lake", table, "**", "*.parquet"),
                     recursive=True)
