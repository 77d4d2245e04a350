/* ehframe.c - .eh_frame_hdr and .eh_frame. */
#include "stack/native/ehframe.h"

#include <stdlib.h>

enum {
    PE_OMIT = 0xff,
    PE_FORM = 0x0f,
    PE_APPLY = 0x70,
    PE_INDIRECT = 0x80,
    PE_PCREL = 0x10,
    PE_DATAREL = 0x30,
    PE_ABSPTR = 0x00,
    PE_ULEB = 0x01,
    PE_UDATA2 = 0x02,
    PE_UDATA4 = 0x03,
    PE_UDATA8 = 0x04,
    PE_SLEB = 0x09,
    PE_SDATA2 = 0x0a,
    PE_SDATA4 = 0x0b,
    PE_SDATA8 = 0x0c,
};

/* One record of .eh_frame, its length already read. */
struct record {
    struct pb_cursor body; /* behind the CIE id or pointer */
    uint64_t body_vaddr;
    uint64_t id;       /* 0 for a CIE, else the distance back to it */
    uint64_t id_vaddr; /* where the distance is counted from */
};

static uint64_t pointer_value(struct pb_cursor *c, uint8_t encoding)
{
    switch (encoding & PE_FORM) {
    case PE_ABSPTR:
    case PE_UDATA8:
    case PE_SDATA8:
        return pb_cursor_u64(c);
    case PE_ULEB:
        return pb_cursor_uleb(c);
    case PE_SLEB:
        return (uint64_t)pb_cursor_sleb(c);
    case PE_UDATA2:
        return pb_cursor_u16(c);
    case PE_SDATA2:
        return (uint64_t)(int64_t)(int16_t)pb_cursor_u16(c);
    case PE_UDATA4:
        return pb_cursor_u32(c);
    case PE_SDATA4:
        return (uint64_t)(int64_t)(int32_t)pb_cursor_u32(c);
    default:
        pb_cursor_fail(c);
        return 0;
    }
}

uint64_t pb_eh_pointer(struct pb_cursor *c, uint8_t encoding, uint64_t vaddr, uint64_t datarel)
{
    uint64_t v = pointer_value(c, encoding);

    switch (encoding & PE_APPLY) {
    case 0:
        return v;
    case PE_PCREL:
        return v + vaddr;
    case PE_DATAREL:
        return v + datarel;
    default:
        pb_cursor_fail(c);
        return 0;
    }
}

/* Reads the head of the record at c and leaves c behind it; false at the end of the table. */
static bool next_record(struct pb_cursor *c, uint64_t *vaddr, struct record *ret)
{
    const uint8_t *begin = c->p;
    uint64_t len = pb_cursor_u32(c);

    if (len == 0xffffffff)
        len = pb_cursor_u64(c);
    if (c->bad || len < 4)
        return false;
    ret->id_vaddr = *vaddr + (uint64_t)(c->p - begin);
    ret->body = pb_cursor_bytes(c, len);
    /* Unlike in .debug_frame the id is 4 bytes wide whatever the length's form. */
    ret->id = pb_cursor_u32(&ret->body);
    ret->body_vaddr = ret->id_vaddr + 4;
    *vaddr += (uint64_t)(c->p - begin);
    return !c->bad && !ret->body.bad;
}

/* Reads the augmentation of a CIE: pointer encodings and the signal mark. */
static void read_augmentation(const char *aug, struct pb_cursor *c, uint8_t *encoding,
                              bool *is_signal)
{
    for (const char *p = aug + 1; *p && !c->bad; p++) {
        uint8_t personality;

        switch (*p) {
        case 'R':
            *encoding = pb_cursor_u8(c);
            break;
        case 'L':
            pb_cursor_u8(c);
            break;
        case 'S':
            *is_signal = true;
            break;
        case 'P':
            personality = pb_cursor_u8(c);
            pointer_value(c, personality);
            break;
        case 'B':
        case 'G':
            break; /* aarch64: B key, tagged memory; no data */
        default:
            return; /* the length in front lets us skip what we do not know */
        }
    }
}

static bool read_cie(struct record *r, struct pb_fde *fde, bool *has_aug_data)
{
    struct pb_cursor *c = &r->body;
    uint8_t version = pb_cursor_u8(c);
    const char *aug = pb_cursor_string(c);

    if (!aug || (version != 1 && version != 3 && version != 4))
        return false;
    if (version == 4) {
        pb_cursor_u8(c); /* address size */
        pb_cursor_u8(c); /* segment selector size */
    }
    fde->code_align = pb_cursor_uleb(c);
    fde->data_align = pb_cursor_sleb(c);
    fde->ra_reg = version == 1 ? pb_cursor_u8(c) : pb_cursor_uleb(c);
    fde->encoding = PE_ABSPTR;
    *has_aug_data = aug[0] == 'z';
    if (*has_aug_data) {
        uint64_t len = pb_cursor_uleb(c);
        struct pb_cursor data = pb_cursor_bytes(c, len);

        read_augmentation(aug, &data, &fde->encoding, &fde->is_signal);
    } else if (aug[0]) {
        return false; /* data of unknown length */
    }
    fde->initial = *c;
    return !c->bad;
}

/* Finds the bytes from a vaddr on, inside .eh_frame. */
static bool frame_at(const struct pb_eh *eh, uint64_t vaddr, struct pb_cursor *ret)
{
    if (vaddr < eh->frame.vaddr || vaddr - eh->frame.vaddr >= eh->frame.size)
        return false;
    *ret = pb_cursor_make(eh->frame.data + (vaddr - eh->frame.vaddr),
                          eh->frame.size - (vaddr - eh->frame.vaddr));
    return true;
}

static bool read_fde(const struct pb_eh *eh, struct record *r, struct pb_fde *ret)
{
    struct pb_cursor at;
    struct record cie;
    uint64_t cie_vaddr = r->id_vaddr - r->id;
    const uint8_t *begin = r->body.p;
    bool has_aug_data;

    memset(ret, 0, sizeof *ret);
    if (r->id == 0 || !frame_at(eh, cie_vaddr, &at) || !next_record(&at, &cie_vaddr, &cie) ||
        cie.id != 0 || !read_cie(&cie, ret, &has_aug_data))
        return false;
    ret->start = pb_eh_pointer(&r->body, ret->encoding, r->body_vaddr, eh->hdr.vaddr);
    ret->end = ret->start + pointer_value(&r->body, ret->encoding & PE_FORM);
    if (has_aug_data) {
        uint64_t len = pb_cursor_uleb(&r->body);

        pb_cursor_skip(&r->body, len);
    }
    ret->instructions = r->body;
    ret->instructions_vaddr = r->body_vaddr + (uint64_t)(r->body.p - begin);
    return !r->body.bad && ret->start < ret->end && !(ret->encoding & PE_INDIRECT);
}

static bool fde_at(const struct pb_eh *eh, uint64_t vaddr, struct pb_fde *ret)
{
    struct pb_cursor at;
    struct record r;

    return frame_at(eh, vaddr, &at) && next_record(&at, &vaddr, &r) && read_fde(eh, &r, ret);
}

/* Takes the search table if it has the sorted form that linkers write. */
static void read_table(struct pb_eh *eh, struct pb_cursor *c, uint8_t count_enc, uint8_t table_enc)
{
    uint64_t n;

    if (count_enc == PE_OMIT || table_enc == PE_OMIT || (table_enc & PE_APPLY) != PE_DATAREL)
        return;
    n = pb_eh_pointer(c, count_enc, 0, eh->hdr.vaddr);
    if ((table_enc & PE_FORM) == PE_SDATA4)
        eh->width = 4;
    else if ((table_enc & PE_FORM) == PE_SDATA8)
        eh->width = 8;
    else
        return;
    if (c->bad || n == 0 || n > pb_cursor_left(c) / (2 * eh->width))
        return;
    eh->table = c->p;
    eh->ntable = n;
}

static bool read_hdr(struct pb_eh *eh)
{
    struct pb_cursor c = pb_cursor_make(eh->hdr.data, eh->hdr.size);
    uint8_t version = pb_cursor_u8(&c), frame_enc = pb_cursor_u8(&c);
    uint8_t count_enc = pb_cursor_u8(&c), table_enc = pb_cursor_u8(&c);
    uint64_t frame;

    if (c.bad || version != 1 || frame_enc == PE_OMIT)
        return false;
    frame = pb_eh_pointer(&c, frame_enc, eh->hdr.vaddr + 4, eh->hdr.vaddr);
    if (c.bad || !pb_elf_at(eh->elf, frame, &eh->frame))
        return false;
    read_table(eh, &c, count_enc, table_enc);
    return true;
}

bool pb_eh_init(struct pb_eh *eh, const struct pb_elf *elf)
{
    memset(eh, 0, sizeof *eh);
    eh->elf = elf;
    if (pb_elf_segment(elf, PT_GNU_EH_FRAME, &eh->hdr) && read_hdr(eh))
        return true;
    memset(&eh->hdr, 0, sizeof eh->hdr);
    return pb_elf_section(elf, ".eh_frame", &eh->frame);
}

void pb_eh_finish(struct pb_eh *eh)
{
    free(eh->index);
    memset(eh, 0, sizeof *eh);
}

static uint64_t table_number(const struct pb_eh *eh, size_t i, size_t which)
{
    struct pb_cursor c = pb_cursor_make(eh->table + (2 * i + which) * eh->width, eh->width);

    return pb_eh_pointer(&c, PE_DATAREL | (eh->width == 4 ? PE_SDATA4 : PE_SDATA8), 0,
                         eh->hdr.vaddr);
}

static bool find_in_table(const struct pb_eh *eh, uint64_t vaddr, struct pb_fde *ret)
{
    size_t lo = 0, hi = eh->ntable;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (table_number(eh, mid, 0) <= vaddr)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo > 0 && fde_at(eh, table_number(eh, lo - 1, 1), ret);
}

static int compare_entries(const void *a, const void *b)
{
    const struct pb_eh_entry *x = a, *y = b;

    return x->start < y->start ? -1 : x->start > y->start;
}

static bool add_entry(struct pb_eh *eh, size_t *cap, const struct pb_eh_entry *e)
{
    if (eh->nindex == *cap) {
        size_t bigger = *cap ? *cap * 2 : 256;
        struct pb_eh_entry *v = realloc(eh->index, bigger * sizeof *v);

        if (!v)
            return false;
        eh->index = v;
        *cap = bigger;
    }
    eh->index[eh->nindex++] = *e;
    return true;
}

/* One walk over all records, for the rare file that has no search table. */
static void build_index(struct pb_eh *eh)
{
    struct pb_cursor c = pb_cursor_make(eh->frame.data, eh->frame.size);
    uint64_t vaddr = eh->frame.vaddr;
    size_t cap = 0;

    eh->indexed = true;
    while (!pb_cursor_done(&c)) {
        uint64_t at = vaddr;
        struct record r;
        struct pb_fde fde;

        if (!next_record(&c, &vaddr, &r))
            break;
        if (r.id != 0 && read_fde(eh, &r, &fde) &&
            !add_entry(eh, &cap, &(struct pb_eh_entry){fde.start, fde.end, at}))
            break;
    }
    if (eh->nindex)
        qsort(eh->index, eh->nindex, sizeof *eh->index, compare_entries);
}

static bool find_in_index(struct pb_eh *eh, uint64_t vaddr, struct pb_fde *ret)
{
    size_t lo = 0, hi;

    if (!eh->indexed)
        build_index(eh);
    hi = eh->nindex;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (eh->index[mid].start <= vaddr)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo > 0 && fde_at(eh, eh->index[lo - 1].fde, ret);
}

bool pb_eh_find(struct pb_eh *eh, uint64_t vaddr, struct pb_fde *ret)
{
    if (eh->frame.size == 0)
        return false;
    if (!(eh->table ? find_in_table(eh, vaddr, ret) : find_in_index(eh, vaddr, ret)))
        return false;
    return vaddr >= ret->start && vaddr < ret->end;
}
