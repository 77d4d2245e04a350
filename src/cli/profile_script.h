/*
 * profile_script.h - what runs in the target for `probing PID profile`.
 *
 * Owns: nothing; a text. Threads: any. Fails: never; the script says what went wrong.
 * Not here: what becomes of the answer (profile.c).
 *
 * The profiler sees the thread that starts it, so an optimizer's hook starts and stops it: on the
 * training thread, between two steps. The script itself waits on a thread of its own. If it is
 * interrupted, or no step comes, the next step stops what it started.
 *
 * It is given STEPS, SECONDS, SHAPES, LIMIT (bytes of the trace) and KEEP (how many rows).
 */
#ifndef PB_CLI_PROFILE_SCRIPT_H
#define PB_CLI_PROFILE_SCRIPT_H

static const char profile_script[] =
    "def run():\n"
    "    import json, os, sys, tempfile, threading\n"
    "    torch = sys.modules.get('torch')\n"
    "    if torch is None:\n"
    "        return {'error': 'torch is not loaded in it'}\n"
    "    try:\n"
    "        from torch.optim.optimizer import register_optimizer_step_post_hook\n"
    "    except ImportError:\n"
    "        return {'error': 'this torch has no optimizer hooks (2.0 and later have)'}\n"
    "    import torch.profiler\n"
    "    lock, done = threading.Lock(), threading.Event()\n"
    "    state = {'left': STEPS, 'over': False}\n"
    "    def begin(optimizer):\n"
    "        if torch.autograd._profiler_enabled():\n"
    "            raise RuntimeError('a profiler is running in it already')\n"
    "        kinds = [torch.profiler.ProfilerActivity.CPU]\n"
    "        if torch.cuda.is_available():\n"
    "            kinds.append(torch.profiler.ProfilerActivity.CUDA)\n"
    "        p = torch.profiler.profile(activities=kinds, record_shapes=SHAPES)\n"
    "        p.start()\n"
    "        state.update(profiler=p, optimizer=id(optimizer))\n"
    "    def step(optimizer):\n"
    "        if 'profiler' not in state:\n"
    "            return state['over'] or begin(optimizer)\n"
    "        if id(optimizer) != state['optimizer']:\n"
    "            return\n"
    "        state['left'] -= 1\n"
    "        if state['left'] <= 0 or state['over']:\n"
    "            state['handle'].remove()\n"
    "            state['profiler'].stop()\n"
    "            done.set()\n"
    "    def hook(optimizer, args, kwargs):\n"
    "        try:\n"
    "            with lock:\n"
    "                if not done.is_set():\n"
    "                    step(optimizer)\n"
    "        except Exception as error:\n"
    "            state['error'] = str(error) or type(error).__name__\n"
    "            state['handle'].remove()\n"
    "            done.set()\n"
    "    def ms(event, *names):\n"
    "        for name in names:\n"
    "            if hasattr(event, name):\n"
    "                return getattr(event, name) / 1000.0\n"
    "    def row(e):\n"
    "        return [e.key, str(e.input_shapes) if SHAPES else None, e.count,\n"
    "                ms(e, 'self_cpu_time_total'), ms(e, 'cpu_time_total'),\n"
    "                ms(e, 'self_device_time_total', 'self_cuda_time_total'),\n"
    "                ms(e, 'device_time_total', 'cuda_time_total')]\n"
    "    with lock:\n"
    "        state['handle'] = register_optimizer_step_post_hook(hook)\n"
    "    try:\n"
    "        ended = done.wait(SECONDS)\n"
    "    finally:\n"
    "        state['over'] = True\n"
    "        if 'profiler' not in state:\n"
    "            state['handle'].remove()\n"
    "    if 'error' in state:\n"
    "        return {'error': state['error']}\n"
    "    if not ended:\n"
    "        return {'error': 'only %d of %d steps in %g s' % (\n"
    "            STEPS - state['left'], STEPS, SECONDS)}\n"
    "    p = state['profiler']\n"
    "    rows = sorted(map(row, p.key_averages(group_by_input_shape=SHAPES)),\n"
    "                  key=lambda r: -(r[3] + (r[5] or 0)))[:KEEP]\n"
    "    fd, path = tempfile.mkstemp('.json', 'probing-trace-')\n"
    "    os.close(fd)\n"
    "    p.export_chrome_trace(path)\n"
    "    answer = {'steps': STEPS, 'rows': rows, 'trace': path, 'bytes': os.path.getsize(path)}\n"
    "    if answer['bytes'] > LIMIT:\n"
    "        os.unlink(path)\n"
    "        answer['trace'] = None\n"
    "    return answer\n"
    "import json\n"
    "print(json.dumps(run()))\n";

#endif
