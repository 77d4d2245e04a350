/*
 * unwind.c - from registers and stack bytes to a list of frames.
 *
 * Call frame information is followed as long as there is any. Where there is
 * none, the architecture offers guesses, and where it needs a frame pointer
 * that is not known, recover.h does; each is taken back unless a call stands
 * in front of its return address and the rest of the stack reaches the start
 * of the thread (a stale address on the stack passes the first test now and
 * then, but not both).
 */
#include <stdlib.h>

#include "stack/native/arch.h"
#include "stack/native/internal.h"
#include "stack/native/recover.h"

#define FRAMES_MAX 65536
#define RETREATS_MAX 256 /* guesses taken back in one stack */
#define CODE_MAX (1 << 20)
#define JIT_CODE 256

/* A frame that its own rules do not lead out of, and the callers not yet tried. */
struct choice {
    size_t frame;
    bool is_recovery; /* they come from walk.recover, else from v */
    struct pb_guess v[PB_GUESSES_MAX];
    size_t n, next;
    size_t tried;
};

struct walk {
    struct pb_modules *ms;
    struct pb_stack_reader s;
    struct pb_regs regs; /* registers of the outermost frame so far */
    struct pb_native_frame *v;
    size_t n, cap, max;
    struct choice *choices;
    size_t nchoices, choices_cap;
    struct pb_recover recover; /* for the first choice, the only one that may need it */
    int retreats;
    bool missed_reg; /* some attempt failed for want of a register */
};

enum step { STEP_ON, STEP_END, STEP_NO_CFI, STEP_RECOVER, STEP_FAILED };

static bool push_frame(struct walk *w, enum pb_native_how how)
{
    if (w->n == w->cap) {
        size_t cap = w->cap ? w->cap * 2 : 64;
        struct pb_native_frame *v = realloc(w->v, cap * sizeof *v);

        if (!v)
            return false;
        w->v = v;
        w->cap = cap;
    }
    w->v[w->n++] =
        (struct pb_native_frame){.pc = w->regs.pc, .sp = w->regs.sp, .cfa = w->regs.sp, .how = how};
    return true;
}

/* A return address points behind its call, which may be the last instruction of a function. */
static uint64_t lookup_pc(const struct walk *w)
{
    uint64_t pc = w->v[w->n - 1].pc;

    return pb_native_is_exact(w->v, w->n - 1) ? pc : pc - 1;
}

static struct choice *add_choice(struct walk *w)
{
    struct choice *c;

    if (w->nchoices == w->choices_cap) {
        size_t cap = w->choices_cap ? w->choices_cap * 2 : 4;
        struct choice *v = realloc(w->choices, cap * sizeof *v);

        if (!v)
            return NULL;
        w->choices = v;
        w->choices_cap = cap;
    }
    c = &w->choices[w->nchoices++];
    c->frame = w->n - 1;
    c->is_recovery = false;
    c->n = c->next = c->tried = 0;
    return c;
}

/* A rule lacks a register. On top of another guess, one more would prove anything. */
static enum step step_recover(struct walk *w, const struct pb_module *m, const struct pb_fde *fde,
                              const struct pb_cfi_row *row)
{
    struct choice *c;

    if (w->nchoices || !pb_recover_init(&w->recover, m, fde, row, &w->regs, &w->s))
        return STEP_FAILED;
    c = add_choice(w);
    if (!c)
        return STEP_FAILED;
    c->is_recovery = true;
    return STEP_RECOVER;
}

/* A return address of 0 ends a stack, but a stray frame pointer soon finds a 0 as well. */
static bool may_end_by_zero(const struct walk *w)
{
    return !w->nchoices || !w->choices[0].is_recovery;
}

static enum step step_cfi(struct walk *w, enum pb_native_end *why)
{
    struct pb_native_frame *f = &w->v[w->n - 1];
    uint64_t pc = lookup_pc(w), sp = w->regs.sp;
    struct pb_module *m = pb_modules_find(w->ms, pc);
    struct pb_cfi_row row;
    struct pb_fde fde;
    bool may_stay = w->n == 1 || pb_native_is_exact(w->v, w->n - 1);

    if (!m || !m->has_eh || !pb_eh_find(&m->eh, pc - m->bias, &fde) ||
        pb_cfi_row(&fde, pc - m->bias, &row) != PB_CFI_OK)
        return STEP_NO_CFI;
    f->is_signal = fde.is_signal;
    switch (pb_cfi_apply(&fde, &row, &w->s, m->bias, &w->regs, &f->cfa)) {
    case PB_CFI_OK:
        break;
    case PB_CFI_END:
        return STEP_END;
    case PB_CFI_BAD:
        return STEP_NO_CFI;
    case PB_CFI_NO_REG:
        *why = PB_NATIVE_NO_REG;
        return step_recover(w, m, &fde, &row);
    case PB_CFI_NO_MEMORY:
        *why = PB_NATIVE_NO_MEMORY;
        return STEP_FAILED;
    }
    if (w->regs.pc == 0 && may_end_by_zero(w))
        return STEP_END;
    /* Only a signal handler can stand on another stack than what it interrupted. */
    if (!fde.is_signal && (w->regs.sp < sp || (w->regs.sp == sp && !may_stay))) {
        *why = PB_NATIVE_LOOP;
        return STEP_FAILED;
    }
    if (!pb_modules_is_code(w->ms, w->regs.pc)) {
        *why = PB_NATIVE_NO_RULE;
        return STEP_FAILED;
    }
    return STEP_ON;
}

/* The code around a pc: of its function where a symbol tells, else only what follows. */
static void find_code(struct walk *w, uint64_t pc, uint8_t jit[JIT_CODE], struct pb_function *f)
{
    struct pb_module *m = pb_modules_find(w->ms, pc);
    struct pb_elf_range range;
    uint64_t start;

    f->is_first = pb_native_is_exact(w->v, w->n - 1);
    f->is_code = pb_modules_is_code(w->ms, pc);
    if (m && m->is_open) {
        bool named = pb_module_function(m, lookup_pc(w) - m->bias, &start) &&
                     pc - m->bias - start < CODE_MAX;

        if (!pb_elf_at(&m->elf, named ? start : pc - m->bias, &range))
            return;
        f->start = named ? start + m->bias : 0;
        f->bytes = range.data;
        f->len = range.size < 2 * CODE_MAX ? range.size : 2 * CODE_MAX;
    } else if (f->is_code && w->s.mem) {
        f->bytes = jit;
        f->len = JIT_CODE;
        while (f->len && !pb_mem_get(w->s.mem, pc, jit, f->len))
            f->len /= 2; /* near the end of a mapping */
    }
}

static bool add_guesses(struct walk *w)
{
    uint8_t jit[JIT_CODE];
    struct pb_function f = {.start = 0};
    struct choice *c = add_choice(w);

    if (!c)
        return false;
    find_code(w, w->regs.pc, jit, &f);
    c->n = pb_arch_guess(&f, &w->regs, &w->s, c->v);
    return true;
}

static bool next_guess(struct walk *w, struct choice *c, struct pb_guess *ret)
{
    if (c->is_recovery)
        return pb_recover_next(&w->recover, w->ms, &w->s, ret);
    while (c->next < c->n) {
        *ret = c->v[c->next++];
        if (pb_modules_is_after_call(w->ms, ret->regs.pc))
            return true;
    }
    return false;
}

/* Goes back to the last frame that has a caller left to try; false when there is none. */
static bool try_next(struct walk *w)
{
    struct pb_guess g;

    while (w->nchoices) {
        struct choice *c = &w->choices[w->nchoices - 1];

        if (next_guess(w, c, &g)) {
            if (c->tried++ && w->retreats++ == RETREATS_MAX)
                return false;
            w->n = c->frame + 1;
            w->v[c->frame].cfa = g.cfa;
            w->regs = g.regs;
            return push_frame(w, g.how);
        }
        w->nchoices--;
        if (w->retreats++ == RETREATS_MAX)
            return false;
    }
    return false;
}

/* Walks by call frame information up to an end or to a frame that has none. */
static enum step walk_cfi(struct walk *w, enum pb_native_end *why)
{
    for (;;) {
        enum step step;

        if (w->n >= w->max) {
            *why = PB_NATIVE_TOO_DEEP;
            return STEP_FAILED;
        }
        step = step_cfi(w, why);
        if (step != STEP_ON)
            return step;
        if (!push_frame(w, PB_NATIVE_CFI)) {
            *why = PB_NATIVE_NO_MEMORY;
            return STEP_FAILED;
        }
    }
}

static enum pb_native_end walk(struct walk *w)
{
    enum pb_native_end why = PB_NATIVE_NO_RULE;
    size_t sure = 0; /* frames in front of the first guess */

    for (;;) {
        enum step step = walk_cfi(w, &why);

        if (step == STEP_END)
            return PB_NATIVE_COMPLETE;
        if (step == STEP_FAILED && why == PB_NATIVE_TOO_DEEP)
            return why;
        if (!sure && (step == STEP_NO_CFI || step == STEP_RECOVER))
            sure = w->n;
        if (step != STEP_NO_CFI) {
            w->missed_reg |= why == PB_NATIVE_NO_REG;
        } else {
            why = PB_NATIVE_NO_RULE;
            if (!add_guesses(w))
                break;
        }
        if (!sure) /* failed without any guess: these frames are all there is */
            return why;
        if (!try_next(w))
            break;
    }
    w->n = sure;
    w->v[sure - 1].cfa = w->v[sure - 1].sp;
    return w->missed_reg ? PB_NATIVE_NO_REG : PB_NATIVE_NO_RULE;
}

bool pb_native_is_exact(const struct pb_native_frame *v, size_t i)
{
    return i == 0 || v[i - 1].is_signal;
}

void pb_native_unwind(struct pb_native *n, const struct pb_regs *regs,
                      const struct pb_stack_copy *stack, size_t max_frames, struct pb_arena *a,
                      struct pb_native_stack *ret)
{
    struct walk w = {
        .ms = &n->modules,
        .s = {.copy = stack, .mem = n->modules.mem},
        .regs = *regs,
        .max = max_frames && max_frames < FRAMES_MAX ? max_frames : FRAMES_MAX,
    };

    memset(ret, 0, sizeof *ret);
    ret->end = PB_NATIVE_NO_MEMORY;
    if (push_frame(&w, PB_NATIVE_START)) {
        ret->end = walk(&w);
        ret->n = w.n;
        ret->v = pb_arena_alloc(a, w.n * sizeof *w.v);
        memcpy(ret->v, w.v, w.n * sizeof *w.v);
    }
    free(w.v);
    free(w.choices);
}

int pb_native_create(struct pb_native **ret, pid_t pid, const struct pb_maps *maps,
                     struct pb_mem *mem, struct pb_err *err)
{
    struct pb_native *n = calloc(1, sizeof *n);

    if (!n)
        return pb_err_set(err, PB_FAIL, "out of memory");
    if (pb_modules_init(&n->modules, pid, maps, mem, err) < 0) {
        free(n);
        return -1;
    }
    *ret = n;
    return 0;
}

void pb_native_destroy(struct pb_native *n)
{
    if (!n)
        return;
    pb_modules_finish(&n->modules);
    free(n);
}
