"""tail -f in Python, through a subprocess that follows a file."""
# expect: healthy
import subprocess
import tempfile

f = tempfile.NamedTemporaryFile()
p = subprocess.Popen(["tail", "-f", f.name], stdout=subprocess.PIPE)
print("stall", flush=True)
p.stdout.readline()
