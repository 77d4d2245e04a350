#include "cluster/gossip.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "host/text/json_write.h"

/* How many others hear of a change from us. */
static unsigned tell_times(const struct pb_members *m)
{
    unsigned bits = 1;

    while (m->n >> bits)
        bits++;
    return bits * PB_GOSSIP_TELL;
}

static void put_sum(struct pb_buf *b, const struct pb_members *m)
{
    char text[24];

    snprintf(text, sizeof text, "%016" PRIx64, pb_members_sum(m));
    pb_json_key(b, "sum");
    pb_json_string(b, text);
}

/* What has changed lately, the least told first. */
static void put_changes(struct pb_buf *b, struct pb_members *m)
{
    struct pb_member *put[PB_GOSSIP_CHANGES];
    unsigned most = tell_times(m);
    size_t n = 0;

    for (unsigned told = 0; told < most; told++)
        for (size_t i = 0; i < m->n && n < PB_GOSSIP_CHANGES; i++)
            if (m->v[i]->told == told)
                put[n++] = m->v[i];
    for (size_t i = 0; i < n; i++) {
        pb_member_write(b, put[i]);
        put[i]->told++;
    }
}

static void put_members(struct pb_buf *b, struct pb_members *m, const struct pb_json *want)
{
    pb_json_key(b, "members");
    pb_buf_putc(b, '[');
    put_changes(b, m);
    for (size_t i = 0; want && want->type == PB_J_ARRAY && i < want->n && i < PB_GOSSIP_RECORDS;
         i++) {
        const struct pb_member *one =
            want->items[i].type == PB_J_STRING ? pb_members_find(m, want->items[i].s) : NULL;

        if (one)
            pb_member_write(b, one);
    }
}

void pb_gossip_ask(struct pb_buf *b, struct pb_members *m, const struct pb_gossip_question *q)
{
    pb_buf_putc(b, '{');
    pb_json_key(b, "protocol");
    pb_json_int(b, PB_GOSSIP_PROTOCOL);
    pb_json_key(b, "cluster");
    pb_json_string(b, q->cluster);
    pb_json_key(b, "from");
    pb_json_string(b, q->from);
    pb_json_key(b, "port");
    pb_json_int(b, q->port);
    put_sum(b, m);
    put_members(b, m, q->want);
    pb_buf_putc(b, ']');
    if (q->digest) {
        pb_json_key(b, "digest");
        pb_buf_putc(b, '[');
        for (size_t i = 0; i < m->n; i++) {
            const struct pb_member *one = m->v[i];

            if (one->state > PB_MEMBER_SUSPECT)
                continue;
            pb_json_comma(b);
            pb_buf_printf(b, "[\"%s\",%" PRIu64 ",%" PRIu64 ",%d]", one->id, one->generation,
                          one->version, (int)one->state);
        }
        pb_buf_putc(b, ']');
    }
    pb_buf_putc(b, '}');
}

int pb_gossip_check(const struct pb_json *message, const char *cluster, struct pb_err *err)
{
    int64_t protocol = pb_json_whole(message, "protocol", -1);
    const char *name = pb_json_str(message, "cluster", NULL);

    if (protocol < 0 || !name)
        return pb_err_set(err, PB_USAGE, "no message of a node");
    if (protocol != PB_GOSSIP_PROTOCOL)
        return pb_err_set(err, PB_DENIED,
                          "another version of probing: it speaks protocol %" PRId64 ", this one %d",
                          protocol, PB_GOSSIP_PROTOCOL);
    if (strcmp(name, cluster) != 0)
        return pb_err_set(err, PB_DENIED, "another cluster: '%.40s', not '%.40s'", name, cluster);
    return 0;
}

void pb_gossip_take(struct pb_members *m, const struct pb_json *message, uint64_t now_ns)
{
    const struct pb_json *records = pb_json_get(message, "members");

    if (!records || records->type != PB_J_ARRAY)
        return;
    /* The whole list of somebody who had it before us is no news that others wait for. */
    for (size_t i = 0; i < records->n && i < PB_GOSSIP_RECORDS + PB_GOSSIP_CHANGES; i++) {
        struct pb_member one;

        if (pb_member_read(&one, &records->items[i], NULL) < 0)
            m->refused++;
        else
            pb_members_merge(m, &one, records->n > PB_GOSSIP_CHANGES, now_ns);
    }
}

/* One line of a digest. */
static bool read_entry(const struct pb_json *e, struct pb_member *ret)
{
    if (e->type != PB_J_ARRAY || e->n != 4 || e->items[0].type != PB_J_STRING ||
        e->items[0].len != PB_MEMBER_ID - 1 || e->items[1].type != PB_J_INT ||
        e->items[2].type != PB_J_INT || e->items[3].type != PB_J_INT)
        return false;
    strcpy(ret->id, e->items[0].s);
    ret->generation = (uint64_t)e->items[1].v.i;
    ret->version = (uint64_t)e->items[2].v.i;
    ret->state = (enum pb_member_state)(e->items[3].v.i & 3);
    return true;
}

static bool is_newer(const struct pb_member *a, const struct pb_member *b)
{
    if (a->generation != b->generation)
        return a->generation > b->generation;
    return a->version != b->version ? a->version > b->version : a->state > b->state;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(((const struct pb_member *)a)->id, ((const struct pb_member *)b)->id);
}

struct digest {
    struct pb_member *v; /* by id; only what a digest says is set */
    size_t n;
};

static void read_digest(struct digest *d, const struct pb_json *list, struct pb_arena *a)
{
    size_t n = list->n < PB_MEMBERS_MAX ? list->n : PB_MEMBERS_MAX;

    d->v = PB_NEW_N(a, struct pb_member, n + 1);
    for (size_t i = 0; i < n; i++)
        d->n += read_entry(&list->items[i], &d->v[d->n]);
    qsort(d->v, d->n, sizeof *d->v, compare_ids);
}

/* Those that are newer here; behind that, the list of those that are newer there. */
static void put_difference(struct pb_buf *b, struct pb_buf *want, struct pb_members *m,
                           const struct digest *d)
{
    size_t put = 0, wanted = 0;

    for (size_t i = 0; i < m->n && put < PB_GOSSIP_RECORDS; i++) {
        const struct pb_member *one = m->v[i], *there;

        there = d->n ? bsearch(one, d->v, d->n, sizeof *d->v, compare_ids) : NULL;
        if (there ? is_newer(one, there) : one->state <= PB_MEMBER_SUSPECT) {
            pb_member_write(b, one);
            put++;
        }
    }
    for (size_t i = 0; i < d->n && wanted < PB_GOSSIP_RECORDS; i++) {
        const struct pb_member *one = pb_members_find(m, d->v[i].id);

        if (one && !is_newer(&d->v[i], one))
            continue;
        pb_json_comma(want);
        pb_json_string(want, d->v[i].id);
        wanted++;
    }
}

void pb_gossip_answer(struct pb_buf *b, struct pb_members *m, const char *cluster,
                      const struct pb_json *question, const char *you, int64_t came_ns)
{
    const struct pb_json *list = pb_json_get(question, "digest");
    struct pb_buf want = PB_BUF_INIT;
    struct pb_arena a = PB_ARENA_INIT;
    const struct pb_member *self = pb_members_self(m);
    struct digest d = {0};
    char sum[24];

    pb_buf_putc(b, '{');
    pb_json_key(b, "protocol");
    pb_json_int(b, PB_GOSSIP_PROTOCOL);
    pb_json_key(b, "cluster");
    pb_json_string(b, cluster);
    pb_json_key(b, "id");
    pb_json_string(b, m->self);
    pb_json_key(b, "you");
    pb_json_string(b, you);
    put_members(b, m, NULL);
    /* Somebody who does not know the same may not know us. */
    snprintf(sum, sizeof sum, "%016" PRIx64, pb_members_sum(m));
    if (self && strcmp(sum, pb_json_str(question, "sum", "")) != 0)
        pb_member_write(b, self);
    pb_buf_putc(&want, '[');
    if (list && list->type == PB_J_ARRAY) {
        read_digest(&d, list, &a);
        put_difference(b, &want, m, &d);
    }
    pb_buf_putc(b, ']');
    put_sum(b, m);
    pb_json_key(b, "want");
    pb_buf_puts(b, want.data);
    pb_buf_putc(b, ']');
    pb_json_key(b, "came_ns");
    pb_json_int(b, came_ns);
    pb_json_key(b, "went_ns");
    pb_json_int(b, pb_clock_wall_ns());
    pb_buf_putc(b, '}');
    pb_buf_finish(&want);
    pb_arena_finish(&a);
}

bool pb_gossip_clock(const struct pb_json *answer, int64_t sent_ns, int64_t received_ns,
                     int64_t *ret_offset, uint64_t *ret_error)
{
    int64_t came = pb_json_whole(answer, "came_ns", -1);
    int64_t went = pb_json_whole(answer, "went_ns", -1), travel;

    /* Clocks of this century, so that nothing below overflows. */
    if (came <= 0 || went < came || went > INT64_MAX / 2 || sent_ns <= 0 ||
        received_ns < sent_ns || received_ns > INT64_MAX / 2)
        return false;
    travel = (received_ns - sent_ns) - (went - came);
    if (travel < 0)
        return false;
    *ret_offset = ((came - sent_ns) + (went - received_ns)) / 2;
    *ret_error = (uint64_t)travel / 2 + 1;
    return true;
}
