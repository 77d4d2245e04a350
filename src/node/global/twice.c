/*
 * Ranks of one job that several nodes say they run. Each node is believed for what it has itself:
 * nobody is displaced, all are asked and shown, and who they are is said with the answer.
 */
#include <string.h>

#include "cluster/ranges.h"
#include "node/global/internal.h"

/* It goes into a header, too, where there is little room. */
#define TEXT_MAX 300
#define HOSTS_MAX 4

struct claims {
    const struct pb_peers_list *list;
    const struct pb_global_scope *w;
    const char *key; /* the job that is looked at */
    struct pb_buf text;
};

/* Does that key mean the same job on every machine? */
static bool is_shared(const char *key)
{
    static const char *const own[] = {"127.", "localhost:", "[::1]:", "0.0.0.0:"};

    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strncmp(key, own[i], strlen(own[i])) == 0)
            return false;
    return *key;
}

/* The ranks of the job at one node; none when it is not there. */
static void read_ranks(const struct claims *c, const struct pb_member *m, struct pb_ranges *ret)
{
    for (size_t k = 0; m->state <= PB_MEMBER_SUSPECT && k < m->njobs; k++)
        if (strcmp(m->jobs[k].key, c->key) == 0 && m->jobs[k].ranks[0])
            pb_ranges_parse(ret, m->jobs[k].ranks, NULL);
}

/* Adds to *ret what is in both. */
static void add_common(const struct pb_ranges *a, const struct pb_ranges *b, struct pb_ranges *ret)
{
    struct pb_ranges rest = {0};

    if (pb_ranges_meet(a, b, NULL)) {
        pb_ranges_without(a, b, &rest);
        pb_ranges_without(a, &rest, ret);
    }
    pb_ranges_finish(&rest);
}

/* Those ranks of the job that more than one node has. */
static void find_common(const struct claims *c, struct pb_ranges *ret)
{
    struct pb_ranges seen = {0};

    for (size_t i = 0; i < c->list->n; i++) {
        struct pb_ranges here = {0};

        read_ranks(c, &c->list->v[i], &here);
        add_common(&here, &seen, ret);
        for (size_t k = 0; k < here.n; k++)
            pb_ranges_add(&seen, here.v[k].first, here.v[k].last);
        pb_ranges_finish(&here);
    }
    pb_ranges_finish(&seen);
}

/* "node-a (10.0.0.1:7707), node-b": a host's name is what its node says; where it is, is not. */
static void put_hosts(struct claims *c, const struct pb_ranges *common)
{
    size_t n = 0;

    for (size_t i = 0; i < c->list->n; i++) {
        const struct pb_member *m = &c->list->v[i];
        const char *address = pb_member_address(m);
        struct pb_ranges here = {0};

        read_ranks(c, m, &here);
        if (pb_ranges_meet(&here, common, NULL) && n++ < HOSTS_MAX) {
            pb_buf_printf(&c->text, "%s%s", n > 1 ? ", " : "", m->host);
            if (*address)
                pb_buf_printf(&c->text, " (%s)", address);
        }
        pb_ranges_finish(&here);
    }
    if (n > HOSTS_MAX)
        pb_buf_printf(&c->text, " and %zu more", n - HOSTS_MAX);
}

static void search_job(struct claims *c, const struct pb_member_job *j)
{
    struct pb_ranges wanted = {0}, found = {0}, common = {0};

    find_common(c, &found);
    if (c->w->ranks && pb_ranges_parse(&wanted, c->w->ranks, NULL) == 0)
        add_common(&found, &wanted, &common);
    else
        add_common(&found, &found, &common);
    if (common.n) {
        pb_buf_puts(&c->text, c->text.len ? "; rank" : "rank");
        pb_buf_puts(&c->text, common.n > 1 || common.v[0].first < common.v[0].last ? "s " : " ");
        pb_ranges_text(&common, &c->text);
        pb_buf_printf(&c->text, " of %s at ", j->script[0] ? j->script : j->key);
        put_hosts(c, &common);
    }
    pb_ranges_finish(&wanted);
    pb_ranges_finish(&found);
    pb_ranges_finish(&common);
}

/* Has the job of v[at].jobs[k] been looked at before? */
static bool is_first(const struct pb_peers_list *list, size_t at, size_t k)
{
    for (size_t i = 0; i <= at; i++)
        for (size_t n = 0; n < list->v[i].njobs; n++)
            if (strcmp(list->v[i].jobs[n].key, list->v[at].jobs[k].key) == 0)
                return i == at && n == k;
    return true;
}

const char *pb_global_twice(const struct pb_peers_list *list, const struct pb_global_scope *w,
                            struct pb_arena *a)
{
    struct claims c = {.list = list, .w = w};
    const char *text;

    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < list->v[i].njobs; k++) {
            const struct pb_member_job *j = &list->v[i].jobs[k];

            c.key = j->key;
            if (pb_global_is_of_job(j, w->job) && (w->ranks || is_shared(j->key)) &&
                is_first(list, i, k))
                search_job(&c, j);
        }
    text = c.text.len ? pb_arena_printf(a, "%.*s%s", TEXT_MAX, c.text.data,
                                        c.text.len > TEXT_MAX ? "…" : "")
                      : NULL;
    pb_buf_finish(&c.text);
    return text;
}
