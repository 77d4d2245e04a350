# Runs inside the target for `probing PID profile`. The tool puts WANTED, SECONDS, EVENTS, GROWTH,
# SHAPES and BEGIN in front of it; torch_listen, torch_profiled, torch_count and torch_place are the
# agent's. BEGIN is None, or says where ranks of a job begin together: (what of torch_place, the
# number that it must have reached, by how much it grows in a step).
#
# torch's profiler sees the thread that starts it. So the agent tells a function here of model calls
# and step ends, on the thread that makes them, and that function starts and stops the profiler. The
# script itself waits on a thread of its own, a little at a time: it can be interrupted between two
# waits. Then, or when a bound is reached, the next call or step stops what was started. A process
# that ends with the profiler running would crash in torch, so the end of its thread and the end of
# the interpreter stop it, too.
#
# It answers with one line of JSON and, behind it, the trace as torch writes it.
CALL, STEP = 1, 2
# A model that is called without gradients and without a step for so long is not being trained.
PATIENCE = 2.0
# Where events cannot be counted, they are not closer together than this.
EVENT_SECONDS = 2e-6
# A backward pass has so many events for each one of the forward pass, and cannot be stopped within.
BACKWARD = 3


class Ending(object):
    """Lives in a thread's own variables, and goes with them, on that thread."""

    def __init__(self, profile):
        self.profile = profile

    def __del__(self):
        profile, self.profile = self.profile, None
        if profile is not None:
            profile.at_end("its thread ended")


class Profile(object):
    def __init__(self, torch):
        import _thread
        import threading
        import time
        self.own, self.hooks = threading.local(), []
        self.torch, self.clock, self.ident = torch, time.monotonic, _thread.get_ident
        self.lock, self.done = threading.Lock(), threading.Event()
        self.began = self.clock()
        self.profiler = self.thread = self.unit = self.error = self.why = None
        self.over = self.stepped = self.abandoned = False
        self.count = 0
        self.first = self.late = None

    def on_event(self, event):
        try:
            with self.lock:
                if not self.done.is_set():
                    self.advance(event)
        except Exception as error:
            self.error = str(error) or type(error).__name__
            self.done.set()

    def advance(self, event):
        if self.profiler is None:
            self.stepped = self.stepped or event == STEP
            unit = self.begins_with(event)
            if unit and not self.over:
                self.start(unit)
        elif self.ident() == self.thread:
            self.count += event == (STEP if self.unit == "steps" else CALL)
            self.add_up(event)
            self.why = self.reason_to_stop()
            if self.why is not None:
                self.stop()

    def begins_with(self, event):
        if event == STEP:
            return "steps" if self.is_time() else None
        waited = self.clock() - self.began > PATIENCE
        infers = waited and not self.stepped and not self.torch.is_grad_enabled()
        return "calls" if infers else None

    def is_time(self):
        """Does the step begin at which all ranks do?"""
        if BEGIN is None:
            return True
        which, number, each = BEGIN
        here = torch_place()[which]
        if here < 0:
            raise RuntimeError("its steps cannot be counted as those of the other ranks")
        if self.late is None:
            self.late = max(0, (here - number) // each)
        return here >= number

    def add_up(self, event):
        """How many events there are, and how many there will be when we are asked next."""
        events = torch_count() if self.counted else (self.clock() - self.started) / EVENT_SECONDS
        since = events - self.events_before
        self.events = events
        if event == STEP:
            self.largest, self.events_before = max(self.largest, since), events
            self.coming = self.largest
        else:
            self.coming = since * BACKWARD if self.torch.is_grad_enabled() else 0

    def reason_to_stop(self):
        """Empty when all is there; None to go on."""
        if self.count >= WANTED:
            return ""
        grown = resident() - self.resident
        if self.over:
            return "%g s are over" % SECONDS
        if self.events + self.coming > EVENTS:
            return "it would have more than %d events" % EVENTS
        if grown > GROWTH:
            return "the process has grown by %d MB" % (grown >> 20)
        return None

    def start(self, unit):
        if self.torch.autograd._profiler_enabled():
            raise RuntimeError("a profiler is running in it already")
        made = make_profiler(self.torch)
        self.first = torch_place()[0]
        torch_profiled(True)
        self.unit, self.thread, self.resident = unit, self.ident(), resident()
        self.guard()
        self.counted = torch_count(True) >= 0
        self.events = self.events_before = self.largest = 0
        before = self.clock()
        made.__enter__()
        self.profiler, self.started = made, self.clock()
        self.start_s = self.started - before

    def guard(self):
        import atexit
        self.own.ending = Ending(self)
        atexit.register(self.at_exit)

    def at_end(self, why):
        """On the profiler's own thread, when there will be no more events."""
        with self.lock:
            if not self.done.is_set():
                self.why = why
                self.stop()

    def at_exit(self):
        self.over = True
        if self.ident() == self.thread:
            self.at_end("the process ended")
        else:
            self.wait(2)

    def unguard(self):
        import atexit
        atexit.unregister(self.at_exit)
        ending = getattr(self.own, "ending", None)  # gone already when the thread ends
        if ending is not None:
            ending.profile = None
        for hook in self.hooks:
            hook.remove()

    def stop(self):
        before = self.clock()
        self.took_s = before - self.started
        try:
            self.profiler.__exit__(None, None, None)
        finally:
            self.stop_s = self.clock() - before
            torch_count(False)
            torch_listen(None)
            self.unguard()
            if self.abandoned:
                self.profiler = None
                torch_profiled(False)
            self.done.set()

    def wait(self, seconds):
        end = self.clock() + seconds
        while not self.done.wait(0.05) and self.clock() < end:
            pass
        return self.done.is_set()

    def finish(self):
        """Nothing new starts; what runs is stopped by the next event."""
        with self.lock:
            self.over = True
            if self.profiler is None:
                torch_listen(None)
                self.done.set()

    def leave(self):
        with self.lock:
            self.abandoned = True
            if self.done.is_set():
                torch_profiled(False)
            else:
                self.hook()

    def hook(self):
        """The agent may be about to leave: torch's own hooks, which compiled code sees."""
        from torch.nn.modules.module import register_module_forward_pre_hook
        from torch.optim.optimizer import register_optimizer_step_post_hook
        self.hooks = [register_module_forward_pre_hook(lambda *_: self.on_event(CALL)),
                      register_optimizer_step_post_hook(lambda *_: self.on_event(STEP))]


def resident():
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * 4096


def make_profiler(torch):
    """The plain profiler: torch.profiler's own object turns every event into a Python object."""
    how = {"record_shapes": SHAPES, "use_kineto": True}
    code = torch.autograd.profiler.profile.__init__.__code__
    if torch.cuda.is_available():
        how.update({"use_device": "cuda"} if "use_device" in code.co_varnames
                   else {"use_cuda": True})
    made = torch.autograd.profiler.profile(**how)
    made._parse_kineto_results = lambda results: []  # torch before 2.6 does so at once
    return made


def listen(profile, seconds):
    """The agent's collector may have been asked for this very moment."""
    import time
    end = time.monotonic() + seconds
    while not torch_listen(profile.on_event):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def record(profile):
    """An error, or None."""
    if not listen(profile, min(10, SECONDS)):
        return ("the torch collector is not on in it: see torch.collect in `probing PID config`, "
                "and probing.agents")
    try:
        profile.wait(SECONDS)
        profile.finish()
        if not profile.wait(5 if profile.profiler else 0):
            return "no step and no call of a model since the profiler started"
    except KeyboardInterrupt:
        profile.finish()
        profile.wait(0.8)
        return "interrupted"
    finally:
        profile.finish()
    if profile.error or profile.unit is None:
        return profile.error or ("no training step and no call of a model in %g s" % SECONDS)
    return None


def save(profile, folder):
    """Writes the trace and drops the events; returns its path."""
    import ctypes
    import os
    path = os.path.join(folder, "trace.json")
    before = profile.clock()
    profile.profiler.kineto_results.save(path)
    profile.profiler = None
    profile.save_s = profile.clock() - before
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        pass  # another C library
    return path


def send(head, path):
    import json
    import sys
    sys.stdout.write(json.dumps(head) + "\n")
    sys.stdout.flush()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(1 << 16), b""):
            sys.stdout.buffer.write(piece)


def main():
    import json
    import shutil
    import sys
    import tempfile
    torch = sys.modules.get("torch")
    if torch is None:
        print(json.dumps({"error": "torch is not loaded in it"}))
        return
    profile = Profile(torch)
    folder = tempfile.mkdtemp("", "probing-trace-")
    try:
        error = record(profile)
        if error:
            print(json.dumps({"error": error}))
            return
        path = save(profile, folder)
        send({"unit": profile.unit, "first": profile.first, "late": profile.late,
              "count": profile.count, "why": profile.why,
              "took_s": profile.took_s, "start_s": profile.start_s, "stop_s": profile.stop_s,
              "save_s": profile.save_s}, path)
    finally:
        profile.leave()
        shutil.rmtree(folder, ignore_errors=True)


main()
