"""A module starts a thread that imports the module itself, and waits for it."""
# expect: hang
import os
import sys
import tempfile

folder = tempfile.mkdtemp()
with open(os.path.join(folder, "helper_mod.py"), "w") as f:
    f.write("import threading\n"
            "def load():\n"
            "    import helper_mod  # here\n"
            "    helper_mod.value\n"
            "t = threading.Thread(target=load)\n"
            "t.start()\n"
            "t.join()  # here\n"
            "value = 1\n")
sys.path.insert(0, folder)
print("stall", flush=True)
import helper_mod  # noqa: E402  # here
