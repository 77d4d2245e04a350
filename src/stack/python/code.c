#include "stack/python/code.h"

#include <string.h>

#include "stack/values/pointer.h"

#define NAME_MAX_LEN 1024
#define FILE_MAX_LEN 4096
#define TABLE_MAX_LEN (1u << 20)
#define CODE_HEAD_MAX 512
/*
 * What the cache may hold of one process. Stacks of a real one need a hundredth of it; one that
 * means harm has functions without end, each with the same large table.
 */
#define CACHE_MAX ((size_t)64 << 20)
/* More threads than this do not get bytecode of their own. */
#define TLBC_MAX (1 << 16)

void pb_py_codes_init(struct pb_py_codes *c, struct pb_mem *mem, const struct pb_py_layout *py)
{
    memset(c, 0, sizeof *c);
    c->reader.mem = mem;
    c->reader.py = py;
    c->reader.arena = &c->arena;
    pb_py_reader_prepare(&c->reader);
}

void pb_py_codes_finish(struct pb_py_codes *c)
{
    pb_arena_finish(&c->arena);
    memset(c, 0, sizeof *c);
}

bool pb_py_codes_are_full(const struct pb_py_codes *c)
{
    return c->arena.bytes > CACHE_MAX;
}

static uint64_t word(const uint8_t *head, int at)
{
    uint64_t v;

    memcpy(&v, head + at, sizeof v);
    return v;
}

static void identify(const struct pb_py_layout *py, const uint8_t *head, struct pb_py_code_id *id)
{
    memset(id, 0, sizeof *id);
    id->type = word(head, py->ob_type);
    id->name = word(head, py->co_name);
    id->filename = word(head, py->co_filename);
    id->table = word(head, py->co_linetable);
    if (py->co_varnames + 8 <= py->co_size)
        id->varnames = word(head, py->co_varnames);
    memcpy(&id->firstlineno, head + py->co_firstlineno, sizeof id->firstlineno);
}

static bool read_head(struct pb_py_codes *c, uint64_t addr, uint8_t *head,
                      struct pb_py_code_id *id)
{
    const struct pb_py_layout *py = c->reader.py;

    if (!pb_py_plausible(addr) || py->co_size > CODE_HEAD_MAX ||
        !pb_mem_get(c->reader.mem, addr, head, (size_t)py->co_size))
        return false;
    identify(py, head, id);
    return true;
}

static bool same_id(const struct pb_py_code_id *x, const struct pb_py_code_id *y)
{
    return x->type == y->type && x->name == y->name && x->filename == y->filename &&
           x->table == y->table && x->varnames == y->varnames &&
           x->firstlineno == y->firstlineno;
}

/* Is this object a code object? The type's address is learnt from the first one. */
static bool is_code(struct pb_py_codes *c, uint64_t addr, uint64_t type)
{
    if (c->code_type)
        return type == c->code_type;
    if (strcmp(pb_py_type_name(&c->reader, addr), "code") != 0)
        return false;
    c->code_type = type;
    return true;
}

static bool fill(struct pb_py_codes *c, struct pb_py_code *code, const uint8_t *head)
{
    const struct pb_py_layout *py = c->reader.py;

    code->name = pb_py_str(&c->reader, code->id.name, NAME_MAX_LEN);
    code->file = pb_py_str(&c->reader, code->id.filename, FILE_MAX_LEN);
    code->func = py->co_qualname == PB_NONE
                     ? code->name
                     : pb_py_str(&c->reader, word(head, py->co_qualname), NAME_MAX_LEN);
    if (!code->func)
        code->func = code->name;
    if (py->co_tlbc != PB_NONE && py->free_threaded)
        code->tlbc = word(head, py->co_tlbc);
    code->table =
        pb_py_bytes(&c->reader, code->id.table, TABLE_MAX_LEN, &code->table_len);
    return code->name && code->file && code->table;
}

static struct pb_py_code **find_bucket(struct pb_py_codes *c, uint64_t addr)
{
    return &c->bucket[(addr >> 4) * 0x9e3779b97f4a7c15u >> 55];
}

static struct pb_py_code *find(struct pb_py_codes *c, uint64_t addr)
{
    for (struct pb_py_code *p = *find_bucket(c, addr); p; p = p->next)
        if (p->addr == addr)
            return p;
    return NULL;
}

/*
 * The frame may have returned and its code object been freed since the frame
 * was copied. The head is read before and after the strings: unchanged, they
 * belonged to it.
 */
struct pb_py_code *pb_py_code_get(struct pb_py_codes *c, uint64_t addr)
{
    uint8_t head[CODE_HEAD_MAX];
    struct pb_py_code *code = find(c, addr);
    struct pb_py_code_id id, again;
    struct pb_py_code fresh;

    if (!read_head(c, addr, head, &id) || !is_code(c, addr, id.type))
        return NULL;
    if (code && same_id(&code->id, &id))
        return code;
    if (pb_py_codes_are_full(c))
        return NULL;
    fresh = (struct pb_py_code){.addr = addr, .id = id};
    if (!fill(c, &fresh, head) || !read_head(c, addr, head, &again) || !same_id(&id, &again))
        return NULL;
    if (!code) {
        code = PB_NEW(&c->arena, struct pb_py_code);
        fresh.next = *find_bucket(c, addr);
        *find_bucket(c, addr) = code;
    } else {
        fresh.next = code->next;
    }
    *code = fresh;
    return code;
}

bool pb_py_codes_get(struct pb_py_codes *c, const uint64_t *addrs, size_t n, struct pb_arena *a,
                     struct pb_py_code **ret)
{
    size_t size = (size_t)c->reader.py->co_size, count = 0, got;
    struct pb_mem_range *ranges = PB_NEW_N(a, struct pb_mem_range, n + 1);
    uint8_t *heads = pb_arena_alloc(a, n * size);
    struct pb_py_code_id id;
    bool ok = true;

    for (size_t i = 0; i < n; i++)
        if (addrs[i] && find(c, addrs[i]))
            ranges[count++] = (struct pb_mem_range){addrs[i], heads + i * size, size};
    got = count ? c->reader.mem->read(c->reader.mem, ranges, count) : 0;
    for (size_t i = 0, k = 0; i < n; i++) {
        ret[i] = addrs[i] ? find(c, addrs[i]) : NULL;
        if (!addrs[i])
            continue;
        if (ret[i] && k < got && ranges[k].addr == addrs[i]) {
            k++;
            identify(c->reader.py, heads + i * size, &id);
            if (same_id(&ret[i]->id, &id))
                continue;
        }
        ret[i] = pb_py_code_get(c, addrs[i]);
        ok = ok && ret[i];
    }
    return ok;
}

/* Where the bytecode that this frame runs begins: 3.14t gives each thread a copy. */
static uint64_t bytecode_start(struct pb_py_codes *c, const struct pb_py_code *code,
                               const struct pb_py_raw_frame *f)
{
    uint64_t base;

    if (code->tlbc && f->tlbc > 0 && f->tlbc < TLBC_MAX &&
        pb_mem_u64(c->reader.mem, code->tlbc + 8 + 8 * (uint64_t)f->tlbc, &base) && base)
        return base;
    return code->addr + (uint64_t)c->reader.py->co_code;
}

struct pb_py_position pb_py_code_position(struct pb_py_codes *c, const struct pb_py_code *code,
                                          const struct pb_py_raw_frame *f)
{
    const struct pb_py_layout *py = c->reader.py;
    struct pb_py_position p = {0, 0, -1, -1};
    int64_t offset;

    if (py->f_instr_is_pointer)
        offset = (int64_t)(f->instr - bytecode_start(c, code, f));
    else
        offset = (int64_t)f->instr * py->lasti_scale;
    if (offset > INT32_MAX)
        return p;
    if (offset >= 0 && py->lines == PB_LINES_TABLE_311)
        p = pb_py_position_of(code->table, code->table_len, code->id.firstlineno,
                              (uint32_t)offset);
    else if (offset >= 0)
        p.line = pb_py_line(py->lines, code->table, code->table_len, code->id.firstlineno,
                            (uint32_t)offset);
    /* Not a single instruction was run, or one of those at the entry that have no line. */
    if (!p.line)
        p = (struct pb_py_position){code->id.firstlineno, 0, -1, -1};
    return p;
}
