#include "node/waits/glances.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/hash.h"

/* Files of libraries that say what a thread does for the program. */
static const struct {
    const char *part;
    enum pb_phase phase;
} known[] = {
    {"/torch/utils/data/", PB_PHASE_DATA},         {"/webdataset/", PB_PHASE_DATA},
    {"/datasets/iterable_dataset.py", PB_PHASE_DATA},
    {"/torch/serialization.py", PB_PHASE_CHECKPOINT},
    {"/torch/distributed/checkpoint/", PB_PHASE_CHECKPOINT},
    {"/safetensors/", PB_PHASE_CHECKPOINT},        {"/logging/__init__.py", PB_PHASE_LOGGING},
    {"/logging/handlers.py", PB_PHASE_LOGGING},    {"/tensorboard/", PB_PHASE_LOGGING},
    {"/wandb/", PB_PHASE_LOGGING},                 {"/mlflow/", PB_PHASE_LOGGING},
    {"/torch/_dynamo/convert_frame.py", PB_PHASE_COMPILATION},
    {"/torch/_inductor/compile_fx.py", PB_PHASE_COMPILATION},
    {"/triton/compiler/", PB_PHASE_COMPILATION},
};

static const char *const training[] = {"/torch/nn/modules/", "/torch/nn/functional.py",
                                       "/torch/autograd/", "/torch/optim/", "/torch/_tensor.py"};

static bool is_python(const struct pb_frame *f)
{
    return !f->native && f->func && f->file;
}

/* Does it wait between ranks? In backward() of DDP no Python frame says so. */
static bool is_comm(const struct pb_thread *t)
{
    for (size_t i = 0; i < t->nframes; i++) {
        const struct pb_frame *f = &t->frames[i];

        if (!is_python(f))
            continue;
        if (!pb_wait_is_library(f->file))
            return false;
        if (strstr(f->file, "torch/distributed/") ||
            (t->state == PB_WAITING && strstr(f->func, "_engine_run_backward")))
            return true;
    }
    return false;
}

static bool is_importing(const struct pb_thread *t)
{
    for (size_t i = 0; i < t->nframes; i++)
        if (is_python(&t->frames[i]) && strstr(t->frames[i].file, "importlib._bootstrap"))
            return true;
    return false;
}

static bool is_training(const struct pb_thread *t)
{
    for (size_t i = 0; i < t->nframes; i++)
        for (size_t k = 0; is_python(&t->frames[i]) && k < sizeof training / sizeof *training; k++)
            if (strstr(t->frames[i].file, training[k]))
                return true;
    return false;
}

/*
 * In the forward() of one of the program's own modules, and not in an operation on tensors: these
 * run without the GIL. A sleep stands for whatever else a layer has no business to wait for.
 */
static bool is_in_layer(const struct pb_thread *t)
{
    bool own = false;

    if (!t->holds_gil && !(t->blocked.blocked && (t->blocked.nr == SYS_clock_nanosleep ||
                                                  t->blocked.nr == SYS_nanosleep)))
        return false;
    for (size_t i = 0; i < t->nframes; i++) {
        const struct pb_frame *f = &t->frames[i];

        if (!is_python(f))
            continue;
        if (pb_wait_is_library(f->file))
            return own && strstr(f->file, "/torch/nn/modules/module.py");
        own = true;
    }
    return false;
}

/* Calls that wait for files, the network or time; a device is waited for in others. */
static bool is_in_aside_call(const struct pb_thread *t)
{
    switch (t->blocked.nr) {
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_read:
    case SYS_pread64:
    case SYS_write:
    case SYS_pwrite64:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_recvfrom:
    case SYS_sendto:
    case SYS_connect:
    case SYS_wait4:
        return t->blocked.blocked;
    }
    return false;
}

/*
 * In code of the program itself, or of what it calls for other ends than the model's: Python code,
 * files, the network, sleep. Without the GIL it may compute with tensors.
 */
static bool is_aside(const struct pb_thread *t)
{
    return t->nframes && (t->holds_gil || is_in_aside_call(t)) && !is_training(t) && !is_comm(t);
}

static enum pb_phase phase_of(const struct pb_thread *t)
{
    if (t->collecting)
        return PB_PHASE_GARBAGE;
    if (is_importing(t))
        return PB_PHASE_OWN;
    for (size_t i = 0; i < t->nframes; i++)
        for (size_t k = 0; is_python(&t->frames[i]) && k < sizeof known / sizeof *known; k++)
            if (strstr(t->frames[i].file, known[k].part))
                return known[k].phase;
    return is_in_layer(t) ? PB_PHASE_LAYER : is_aside(t) ? PB_PHASE_ASIDE : PB_PHASE_OWN;
}

/* A best or smallest loss so far begins as infinite; that of a step does not. */
static bool is_loss(const char *name)
{
    static const char *const names[] = {"loss", "train_loss", "total_loss", "batch_loss",
                                        "step_loss", "loss_value", "loss_val"};

    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Of a tensor more names will do: nobody keeps the best of something in one. */
static bool is_loss_tensor(const char *name)
{
    static const char *const names[] = {"nll", "mse", "bce", "ce", "elbo", "cost", "objective"};
    size_t len = name ? strlen(name) : 0;

    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return (len > 5 && strcmp(name + len - 5, "_loss") == 0) ||
           (name && strncmp(name, "loss_", 5) == 0);
}

/* "2.5", "nan", or a tensor of one value: "<torch.Tensor shape=() … [2.5] at 0x…>". */
static bool read_loss(const char *value, struct pb_glance *ret)
{
    bool tensor = strncmp(value, "<torch.", 7) == 0;
    const char *at = value;
    char *end;

    if (tensor) {
        size_t head = strcspn(value, "[>");
        const char *shape = strstr(value, " shape=(");

        at = value[head] == '[' && shape && shape < value + head &&
                     (strncmp(shape, " shape=() ", 10) == 0 ||
                      strncmp(shape, " shape=(1,) ", 12) == 0)
                 ? value + head + 1
                 : NULL;
    } else if (!strchr("-0123456789ni", *value)) {
        at = NULL;
    }
    if (!at)
        return false;
    ret->loss = strtod(at, &end);
    if (end == at || !strchr("],}", *end)) /* also true of the end */
        return false;
    ret->has_loss = true;
    return true;
}

/* One among others: an item of "{'loss': 2.5}", an attribute of "<Trainer at 0x…> {loss=2.5}". */
static bool find_in(const char *value, struct pb_glance *ret)
{
    const char *at = value;

    if (*value != '{' && *value != '<')
        return false;
    while ((at = strstr(at, "loss"))) {
        const char *from = at, *to = at + 4;
        char name[24];

        while (from > value && (isalnum((unsigned char)from[-1]) || from[-1] == '_'))
            from--;
        while (isalnum((unsigned char)*to) || *to == '_')
            to++;
        snprintf(name, sizeof name, "%.*s", (int)(to - from), from);
        at = to;
        if (!is_loss(name))
            continue;
        if (strncmp(to, "': ", 3) == 0 && read_loss(to + 3, ret))
            return true;
        if (*to == '=' && read_loss(to + 1, ret))
            return true;
    }
    return false;
}

static void find_loss(const struct pb_frame *f, struct pb_glance *ret)
{
    for (size_t i = 0; i < f->nlocals; i++)
        if (f->locals[i].value &&
            (is_loss(f->locals[i].name) ||
             (f->locals[i].value[0] == '<' && is_loss_tensor(f->locals[i].name))) &&
            read_loss(f->locals[i].value, ret))
            return;
    for (size_t i = 0; i < f->nlocals; i++)
        if (f->locals[i].value && find_in(f->locals[i].value, ret))
            return;
}

static void set_place(const struct pb_frame *f, enum pb_phase phase, struct pb_tally *ret)
{
    ret->line = f->lineno;
    ret->phase = phase;
    snprintf(ret->func, sizeof ret->func, "%s", f->func);
    snprintf(ret->file, sizeof ret->file, "%s", f->file);
}

static bool is_asleep(const struct pb_thread *t)
{
    return t->blocked.blocked &&
           (t->blocked.nr == SYS_clock_nanosleep || t->blocked.nr == SYS_nanosleep);
}

static uint64_t function_of(const struct pb_frame *f)
{
    return pb_hash_text(pb_hash_text(PB_HASH_SEED, f->file), f->func);
}

struct pb_glance pb_glance_of(const struct pb_thread *t)
{
    struct pb_glance g = {.comm = is_comm(t), .trains = is_training(t), .imports = is_importing(t),
                          .ran = !t->blocked.blocked, .sleeps = is_asleep(t),
                          .phase = phase_of(t)};

    for (size_t i = 0; i < t->nframes; i++) {
        const struct pb_frame *f = &t->frames[i];

        if (!is_python(f) || pb_wait_is_library(f->file))
            continue;
        if (!g.at.line)
            set_place(f, g.phase, &g.at);
        if (g.nown < PB_OWN_FUNCTIONS)
            g.own[g.nown++] = function_of(f);
        if (!g.has_loss)
            find_loss(f, &g);
    }
    return g;
}

static void add_place(struct pb_tallies *t, const struct pb_tally *at, bool ran)
{
    size_t i = 0;

    while (i < t->n && (t->v[i].line != at->line || t->v[i].phase != at->phase ||
                        strcmp(t->v[i].file, at->file) != 0))
        i++;
    if (i == PB_PLACES)
        return;
    if (i == t->n)
        t->v[t->n++] = *at;
    t->v[i].n++;
    t->v[i].ran += ran;
}

/* Is it a function that was met on the way to the model? */
static bool is_on_the_way(const struct pb_tallies *t, uint64_t function)
{
    for (size_t i = 0; i < t->ntrainers; i++)
        if (t->trainers[i] == function)
            return true;
    return false;
}

static void keep_trainers(struct pb_tallies *t, const struct pb_glance *g)
{
    for (size_t i = 0; g->trains && i < g->nown && t->ntrainers < PB_TRAINERS; i++)
        if (!is_on_the_way(t, g->own[i]))
            t->trainers[t->ntrainers++] = g->own[i];
}

/*
 * Without a model there is nothing beside it. A training that sleeps in the function of its steps
 * keeps a pace; one that sleeps in a function which it calls waits for something.
 */
static enum pb_phase phase_in(const struct pb_tallies *t, const struct pb_glance *g)
{
    bool paced = g->sleeps && g->nown && is_on_the_way(t, g->own[0]);

    return g->phase == PB_PHASE_ASIDE && (!t->ntrainers || paced) ? PB_PHASE_OWN : g->phase;
}

static void add_loss(struct pb_loss *l, double v)
{
    l->changes += l->n && v != l->last && !isnan(v);
    if (isnan(v) || isinf(v)) {
        l->bad++;
    } else {
        l->bad = 0;
        l->first = l->finite ? l->first : v;
        l->finite++;
    }
    l->last = v;
    l->n++;
}

void pb_tallies_init(struct pb_tallies *t)
{
    *t = (struct pb_tallies){.last = PB_PHASES};
}

static void fade(struct pb_tallies *t)
{
    t->glances /= 2;
    t->comm /= 2;
    for (size_t i = 0; i < t->n; i++) {
        t->v[i].n /= 2;
        t->v[i].ran /= 2;
    }
    for (size_t i = 0; i < PB_PHASES; i++) {
        t->phases[i].n /= 2;
        t->phases[i].turns /= 2;
    }
}

void pb_tallies_add(struct pb_tallies *t, const struct pb_glance *g)
{
    struct pb_tally at = g->at;

    if (t->glances >= PB_GLANCES_KEPT)
        fade(t);
    t->glances++;
    t->trains = t->trains || g->trains || g->has_loss;
    if (g->has_loss)
        add_loss(&t->loss, g->loss);
    if (g->comm) {
        t->comm++;
        return;
    }
    keep_trainers(t, g);
    at.phase = phase_in(t, g);
    t->phases[at.phase].n++;
    t->phases[at.phase].turns += t->last != PB_PHASES && t->last != at.phase;
    t->last = at.phase;
    if (at.line)
        add_place(t, &at, g->ran);
}

/* The phase met most, that of the program itself apart. */
static enum pb_phase main_phase(const struct pb_tallies *t)
{
    enum pb_phase best = PB_PHASE_OWN;

    for (enum pb_phase p = PB_PHASE_OWN + 1; p < PB_PHASES; p++)
        if (t->phases[p].n > (best == PB_PHASE_OWN ? 0 : t->phases[best].n))
            best = p;
    return best;
}

void pb_tallies_tell(const struct pb_tallies *t, struct pb_wait *w)
{
    w->glances = t->glances;
    w->glances_comm = t->comm;
    w->trains = t->trains;
    w->loss = t->loss;
    w->phase = main_phase(t);
    w->phase_glances = t->phases[w->phase].n;
    w->phase_turns = t->phases[w->phase].turns;
    w->aside_glances = t->phases[PB_PHASE_ASIDE].n + t->phases[PB_PHASE_DATA].n +
                       t->phases[PB_PHASE_LOGGING].n + t->phases[PB_PHASE_CHECKPOINT].n;
    for (size_t i = 0; i < t->n; i++) {
        if (t->v[i].n > w->busy.n)
            w->busy = t->v[i];
        if (t->v[i].ran > w->work.ran)
            w->work = t->v[i];
        if (t->v[i].phase == w->phase && t->v[i].n > w->phase_at.n)
            w->phase_at = t->v[i];
    }
}
