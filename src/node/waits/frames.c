/*
 * What a thread waits for by its stack: by Python frames where the standard library or torch says
 * what it does, by native ones where C++ code waits for others or for a device.
 */
#include <string.h>

#include "node/waits/internal.h"

bool pb_wait_is_library(const char *file)
{
    static const char *const parts[] = {"/site-packages/", "/dist-packages/", "/lib/python3",
                                        "/lib64/python3"};

    if (!file || file[0] == '<')
        return true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(file, parts[i]))
            return true;
    return false;
}

/* Functions of libraries that say what is waited for. The first line that fits counts. */
struct known {
    const char *file; /* end of the path, or a part of it that ends with '/' */
    const char *func; /* last part of its name; NULL: any */
    enum pb_wait_kind kind;
    const char *what; /* NULL: the function's name */
};

static const struct known known[] = {
    {"/pdb.py", NULL, PB_WAIT_DEBUGGER, "a prompt of pdb"},
    {"/bdb.py", NULL, PB_WAIT_DEBUGGER, "a prompt of pdb"},
    {"/debugpy/", NULL, PB_WAIT_DEBUGGER, "debugpy"},
    {"torch/distributed/distributed_c10d.py", NULL, PB_WAIT_COLLECTIVE, NULL},
    {"torch/distributed/rendezvous.py", NULL, PB_WAIT_COLLECTIVE, "rendezvous"},
    {"/queue.py", "get", PB_WAIT_QUEUE, "an item of an empty queue"},
    {"/queue.py", "put", PB_WAIT_QUEUE, "room in a full queue"},
    {"/queue.py", "join", PB_WAIT_QUEUE, "all items of a queue to be done"},
    {"concurrent/futures/_base.py", NULL, PB_WAIT_FUTURE, "a future"},
    {"multiprocessing/pool.py", "get", PB_WAIT_FUTURE, "a result of a pool"},
    {"multiprocessing/pool.py", "wait", PB_WAIT_FUTURE, "a result of a pool"},
    {"multiprocessing/pool.py", "next", PB_WAIT_FUTURE, "a result of a pool"},
    {"concurrent/futures/thread.py", "shutdown", PB_WAIT_THREAD, "a thread to end"},
    {"/threading.py", "join", PB_WAIT_THREAD, "a thread to end"},
    {"/threading.py", "_wait_for_tstate_lock", PB_WAIT_THREAD, "a thread to end"},
    {"/threading.py", "_shutdown", PB_WAIT_THREAD, "threads to end"},
    {"<frozen importlib._bootstrap>", "acquire", PB_WAIT_LOCK, "the lock of an import"},
    {"multiprocessing/synchronize.py", NULL, PB_WAIT_PROCESS_LOCK, "a lock between processes"},
    {"/threading.py", "acquire", PB_WAIT_EVENT, "a semaphore"},
    {"/threading.py", "_wait", PB_WAIT_EVENT, "a barrier"},
    {"/threading.py", "wait_for", PB_WAIT_EVENT, "a condition"},
    {"/threading.py", "wait", PB_WAIT_EVENT, "a condition"},
};

#define WAIT (sizeof known / sizeof *known - 1)
#define AN_EVENT "an event" /* its wait() calls the one of a condition */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

static const char *last_name(const char *func)
{
    const char *dot = strrchr(func, '.');

    return dot ? dot + 1 : func;
}

static bool fits(const struct known *k, const struct pb_frame *f)
{
    bool file = k->file[strlen(k->file) - 1] == '/' ? strstr(f->file, k->file) != NULL
                                                    : ends_with(f->file, k->file);

    return file && (!k->func || strcmp(k->func, last_name(f->func)) == 0);
}

static bool is_python(const struct pb_frame *f)
{
    return !f->native && f->func && f->file;
}

void pb_wait_find_frames(struct pb_wait *w)
{
    const struct pb_thread *t = w->thread;

    for (size_t i = 0; i < t->nframes; i++) {
        const struct pb_frame *f = &t->frames[i];

        if (!is_python(f))
            continue;
        w->top = w->top ? w->top : f;
        if (!pb_wait_is_library(f->file)) {
            w->user = f;
            return;
        }
    }
}

/* Library frames from the innermost one up to the program's own code. */
bool pb_wait_by_frames(struct pb_wait *w)
{
    const struct pb_thread *t = w->thread;
    const struct known *best = NULL;
    const char *func = NULL;
    int waits = 0;

    for (size_t i = 0; i < t->nframes; i++) {
        const struct pb_frame *f = &t->frames[i];

        if (!is_python(f))
            continue;
        if (f == w->user)
            break;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
            if (!fits(&known[k], f))
                continue;
            waits += k == WAIT;
            /* The outermost function of a library's run is the one that was asked for. */
            if (!best || known + k <= best) {
                best = &known[k];
                func = strcmp(last_name(f->func), "wrapper") == 0 ? func : last_name(f->func);
            }
            break;
        }
    }
    if (!best)
        return false;
    w->kind = best->kind;
    w->what = best == &known[WAIT] && waits > 1 ? AN_EVENT : best->what ? best->what : func;
    return true;
}

#define STORE_KEY "a key of the job's store"

/* Collectives and devices that C++ code waits for. */
bool pb_wait_by_native(struct pb_wait *w)
{
    const struct pb_thread *t = w->thread;
    bool gpu = false, comm = false, reducer = false, store = false, sqlite = false;

    for (size_t i = 0; i < t->nframes && !is_python(&t->frames[i]); i++) {
        const struct pb_frame *f = &t->frames[i];
        const char *module = f->module ? f->module : "", *func = f->func ? f->func : "";

        gpu = gpu || strstr(module, "libcuda.so") || strstr(module, "libcudart");
        comm = comm || strstr(module, "libnccl") || strncmp(func, "c10d::", 6) == 0 ||
               strncmp(func, "gloo::", 6) == 0 || strstr(func, "ProcessGroup");
        reducer = reducer || strstr(func, "c10d::Reducer");
        sqlite = sqlite || strstr(module, "sqlite3");
        store = store || strstr(func, "c10d::TCPStore") || strstr(func, "c10d::FileStore");
    }
    if (sqlite && w->kind == PB_WAIT_SLEEP) { /* SQLite asks for its locks again and again */
        w->kind = PB_WAIT_FILE_LOCK;
        w->what = "a lock of an SQLite database";
        return true;
    }
    if (!gpu && !comm)
        return false;
    if (store) { /* any rank may set it, so that the one that waits is the odd one */
        w->kind = PB_WAIT_SOCKET;
        w->what = STORE_KEY;
        w->npeers = 0;
        w->outside = w->alone = false;
        return true;
    }
    w->kind = comm ? PB_WAIT_COLLECTIVE : PB_WAIT_GPU;
    w->what = !comm ? "the device" : reducer ? "gradients of DDP" : "an operation of c10d";
    return true;
}

/* A library's own thread that looks now and then whether something is to be shown or written. */
bool pb_wait_is_watcher(const struct pb_wait *w)
{
    static const char *const files[] = {"/tqdm/_monitor.py", "/IPython/core/history.py",
                                        "/tensorboard/summary/writer/event_file_writer.py"};

    for (size_t i = 0; !w->user && i < w->thread->nframes; i++)
        for (size_t k = 0; k < sizeof files / sizeof *files; k++)
            if (is_python(&w->thread->frames[i]) && ends_with(w->thread->frames[i].file, files[k]))
                return true;
    return false;
}

bool pb_wait_in_asyncio(const struct pb_wait *w)
{
    for (size_t i = 0; i < w->thread->nframes; i++)
        if (is_python(&w->thread->frames[i]) &&
            ends_with(w->thread->frames[i].file, "asyncio/base_events.py"))
            return true;
    return false;
}

void pb_wait_find_await(struct pb_wait_look *l, struct pb_wait *w)
{
    const struct pb_thread *t = w->thread;

    for (size_t i = 0; i < t->nawaits; i++) {
        struct pb_frame *f;

        if (!t->awaits[i].func || pb_wait_is_library(t->awaits[i].file))
            continue;
        f = PB_NEW(l->arena, struct pb_frame);
        f->func = t->awaits[i].func;
        f->file = t->awaits[i].file;
        f->lineno = t->awaits[i].line;
        w->user = f;
        w->what = pb_arena_printf(l->arena, "what the coroutine %s awaits", f->func);
        return;
    }
}
