#include "inject/victim.h"

#include <string.h>

#include "inject/arch.h"

/* No more than what a main thread may have by default. */
#define STACK_MAX (8u << 20)
#define FRAMES_MAX 4096

const char pb_victim_unsure[] = "its stack cannot be unwound to the end";

static bool inside(const struct pb_code_range *r, uint64_t pc)
{
    return pc >= r->lo && pc < r->hi;
}

static bool copy_from(struct pb_injection *in, const struct pb_maps *maps, uint64_t sp, bool held,
                      struct pb_stack_copy *ret)
{
    const struct pb_map *map = pb_maps_find_stack(maps, sp);
    uint8_t *bytes;
    size_t len;

    if (!map || !map->read || !map->write)
        return false;
    len = map->end - sp < STACK_MAX ? map->end - sp : STACK_MAX;
    if (held && len > PB_ROOM_BYTES) {
        size_t got = pb_mem_get_start(&in->mem, sp, in->room, PB_ROOM_BYTES);

        /* It ends inside the room: no time to fetch memory for more. */
        if (got && got < PB_ROOM_BYTES) {
            *ret = (struct pb_stack_copy){sp, got, in->room};
            return true;
        }
    }
    bytes = held && len <= PB_ROOM_BYTES ? in->room : pb_arena_alloc(&in->arena, len);
    /* Stacks of several threads may share a mapping, with guard pages between them. */
    if (!pb_mem_get(&in->mem, sp, bytes, len))
        len = pb_mem_get_start(&in->mem, sp, bytes, len);
    if (!len)
        return false;
    *ret = (struct pb_stack_copy){sp, len, bytes};
    return true;
}

bool pb_victim_copy(struct pb_injection *in, uint64_t sp, bool held, struct pb_stack_copy *ret)
{
    struct pb_err ignored = {0};
    struct pb_maps fresh;
    bool ok;

    if (copy_from(in, &in->maps, sp, held, ret))
        return true;
    /* A thread that was started since. */
    if (pb_maps_read(&fresh, in->pid, &ignored) < 0)
        return false;
    ok = copy_from(in, &fresh, sp, held, ret);
    pb_maps_finish(&fresh);
    return ok;
}

static bool scan_hits(const struct pb_libc *c, const struct pb_stack_copy *stack)
{
    for (size_t i = 0; i + 8 <= stack->len; i += 8) {
        uint64_t word;

        memcpy(&word, stack->bytes + i, sizeof word);
        if (pb_danger_has(&c->danger, word))
            return true;
    }
    return false;
}

/* The innermost code address outside of the C library among the first n frames; 0: none. */
static uint64_t caller_of(const struct pb_libc *c, const struct pb_native_stack *s, size_t n)
{
    for (size_t i = 0; i < s->n && i < n; i++)
        if (!inside(&c->text, s->v[i].pc))
            return s->v[i].pc;
    return 0;
}

static bool any_dangerous(const struct pb_libc *c, const struct pb_native_stack *s)
{
    for (size_t i = 0; i < s->n; i++) {
        /* A return address may be the first byte behind the function that called. */
        bool exact = i == 0 || s->v[i - 1].is_signal;

        if (pb_danger_has(&c->danger, s->v[i].pc - (exact ? 0 : 1)))
            return true;
    }
    return false;
}

/* To the end, and by rules alone: a guess might have jumped over the frame that matters. */
static bool is_sure(const struct pb_native_stack *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].how == PB_NATIVE_FP)
            return false;
    return s->end == PB_NATIVE_COMPLETE;
}

const char *pb_victim_judge(struct pb_injection *in, const struct pb_regs *regs,
                            const struct pb_stack_copy *stack, bool blocked,
                            uint64_t *ret_caller)
{
    const struct pb_libc *c = &in->libc;
    struct pb_native_stack s = {0};
    uint64_t caller;
    bool hit;

    if (pb_danger_has(&c->danger, regs->pc))
        return "it is inside the allocator or the loader";
    hit = scan_hits(c, stack);
    if (!hit && !blocked && !inside(&c->text, regs->pc))
        return NULL;
    pb_native_unwind(in->native, regs, stack, FRAMES_MAX, &in->arena, &s);
    caller = caller_of(c, &s, blocked ? s.n : 2);
    if (ret_caller)
        *ret_caller = caller;
    if (any_dangerous(c, &s))
        return "it is inside the allocator or the loader";
    if (hit && !is_sure(&s))
        return pb_victim_unsure;
    /*
     * A thread that is being started or ended runs in the C library alone and
     * holds locks in functions without a name.
     */
    return caller ? NULL : "it is deep inside the C library";
}

bool pb_victim_is_python(const struct pb_injection *in, uint64_t pc)
{
    const struct pb_map *map = pb_maps_find(&in->maps, pc);

    return map && (strcmp(map->path, in->python) == 0 || strstr(map->path, "/lib-dynload/"));
}

const char *pb_victim_look(struct pb_injection *in, pid_t tid, struct pb_victim *v)
{
    struct pb_proc_wait again;
    struct pb_regs regs;
    uint64_t caller = 0;
    const char *why;

    *v = (struct pb_victim){.tid = tid};
    pb_proc_wait(&v->wait, in->pid, tid);
    if (!v->wait.readable || !v->wait.blocked)
        return "it runs";
    v->blocked = true;
    if (pb_arch_stop_effect(&v->wait, true, &v->way) == PB_STOP_SEEN)
        return "it sleeps in a system call that would notice a stop";
    if (!pb_victim_copy(in, v->wait.sp, false, &v->stack))
        return "its stack cannot be read";
    pb_regs_from_sp_pc(&regs, v->wait.sp, v->wait.pc);
    why = pb_victim_judge(in, &regs, &v->stack, true, &caller);
    v->from_python = pb_victim_is_python(in, caller);
    v->unsure = why == pb_victim_unsure;
    if (why && !v->unsure)
        return why;
    switch (pb_arch_stop_effect(&v->wait, v->from_python, &v->way)) {
    case PB_STOP_SEEN:
        return "it sleeps in a system call that would notice a stop";
    case PB_STOP_EINTR:
        v->eintr = true;
        break;
    case PB_STOP_UNSEEN:
        break;
    }
    pb_proc_wait(&again, in->pid, tid);
    if (!again.blocked || again.nr != v->wait.nr || again.sp != v->wait.sp ||
        again.pc != v->wait.pc)
        return "it woke up";
    return NULL;
}
