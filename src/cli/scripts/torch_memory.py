# Runs inside the target: live blocks of CUDA's allocator by site and module, and the whole
# snapshot for torch's own viewer. SECONDS, EXPORT and ENTRIES stand in front of this text.


def history(torch, on):
    """Turns torch's record of allocations on or off."""
    if on:
        torch.cuda.memory._record_memory_history("all", context="all", stacks="python",
                                                 max_entries=ENTRIES)
    else:
        torch.cuda.memory._record_memory_history(None)


def is_recorded(torch):
    """Whether the program keeps a record itself; versions that cannot tell: no."""
    ask = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    return bool(ask and ask())


def children(module):
    return [one for one in module._modules.values() if one is not None]


def roots(torch):
    """Models: modules that are no part of another one, with a name for each."""
    import gc
    Module = torch.nn.Module
    every = [one for one in gc.get_objects() if issubclass(type(one), Module)]
    parts = {id(child) for one in every for child in children(one)}
    return [one for one in every if id(one) not in parts], every


def owners(torch, models):
    """{address: (kind, name)} of parameters, buffers, gradients and optimizer states."""
    import gc
    found, names = {}, {}

    def add(tensor, kind, name):
        try:
            if tensor is not None and tensor.is_cuda:
                found.setdefault(tensor.untyped_storage().data_ptr(), (kind, name))
        except Exception:  # tensors without memory of their own
            pass

    for model in models:
        for name, tensor in model.named_parameters():
            names[id(tensor)] = name
            add(tensor, "parameter", name)
            add(tensor.grad, "gradient", name)
        for name, tensor in model.named_buffers():
            add(tensor, "buffer", name)
    Optimizer = torch.optim.Optimizer
    for one in [one for one in gc.get_objects() if issubclass(type(one), Optimizer)]:
        for parameter, state in list(one.state.items()):
            for value in state.values() if isinstance(state, dict) else ():
                if isinstance(value, torch.Tensor):
                    add(value, "optimizer", names.get(id(parameter), ""))
    return found


def forwards(modules):
    """{file: [(first line, last line, class)]} of the forward methods of all modules."""
    import dis
    ranges = {}
    for kind in {type(one) for one in modules}:
        code = getattr(getattr(kind, "forward", None), "__code__", None)
        if code is not None:
            lines = [line for _, line in dis.findlinestarts(code) if line]
            ranges.setdefault(code.co_filename, []).append(
                (code.co_firstlineno, max(lines or [0]), kind.__name__))
    return ranges


def describe(block, found, ranges, library):
    """(kind, module, function, file, line) of a block: whose it is, and who allocated it."""
    frames = [one for one in block.get("frames") or [] if one.get("filename", "").endswith(".py")]
    own = [one for one in frames if not one["filename"].startswith(library)]
    site = (own or frames or [None])[0]
    kind, module = found.get(block["address"], ("", ""))
    for frame in frames if not module else ():
        inside = [name for first, last, name in ranges.get(frame["filename"], ())
                  if first <= frame["line"] <= last]
        if inside:
            module = inside[0]
            break
    if site is None:
        return kind, module, "(allocated before)", "", 0
    return kind or "tensor", module, site["name"], site["filename"], site["line"]


def blocks_of(segment):
    """Blocks with their addresses, which older versions leave to be summed up."""
    at = segment["address"]
    for block in segment["blocks"]:
        yield dict(block, address=block.get("address", at))
        at += block["size"]


def sum_up(snapshot, found, ranges, library):
    rows, totals = {}, {"allocated": 0, "reserved": 0, "waiting": 0, "blocks": 0}
    for segment in snapshot["segments"]:
        totals["reserved"] += segment["total_size"]
        for block in blocks_of(segment):
            if block["state"].startswith("active_") and block["state"] != "active_allocated":
                totals["waiting"] += block["size"]
            if block["state"] != "active_allocated":
                continue
            key = (segment.get("device", 0),) + describe(block, found, ranges, library)
            row = rows.setdefault(key, [0, 0])
            row[0] += block["size"]
            row[1] += 1
            totals["allocated"] += block["size"]
            totals["blocks"] += 1
    names = ("device", "kind", "module", "func", "file", "lineno")
    sites = [dict(zip(names, key), bytes=size, blocks=count)
             for key, (size, count) in rows.items()]
    return dict(totals, sites=sorted(sites, key=lambda site: -site["bytes"]))


def take(torch):
    """(head, snapshot): recorded for a while first, unless the program records itself."""
    import os
    import time
    recorded = is_recorded(torch)
    if SECONDS > 0 and not recorded:
        history(torch, True)
    try:
        time.sleep(SECONDS)
        snapshot = torch.cuda.memory._snapshot()
    finally:
        if SECONDS > 0 and not recorded:
            history(torch, False)
    models, modules = roots(torch)
    library = os.path.dirname(torch.__file__) + os.sep
    head = sum_up(snapshot, owners(torch, models), forwards(modules), library)
    head["recorded"] = recorded
    return head, snapshot


def main():
    import json
    import pickle
    import sys
    torch = sys.modules.get("torch")
    why = None
    if torch is None:
        why = "torch is not loaded in it"
    elif not torch.cuda.is_initialized():
        why = "it does not use CUDA; memory --sites and --heap see what is in main memory"
    elif not hasattr(getattr(torch.cuda, "memory", None), "_snapshot"):
        why = "torch %s has no snapshot of its allocator" % torch.__version__
    if why:
        print(json.dumps({"error": why}))
        return
    head, snapshot = take(torch)
    sys.stdout.write(json.dumps(head) + "\n")
    sys.stdout.flush()
    if EXPORT:
        # torch's viewer in a browser reads protocol 4 and below.
        pickle.dump(snapshot, sys.stdout.buffer, 4)


main()
