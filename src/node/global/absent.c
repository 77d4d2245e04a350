/* Ranks that a question is about and that run at no node that is known. */
#include <string.h>

#include "cluster/ranges.h"
#include "node/global/internal.h"

/* It goes into a header, too, where there is little room. */
#define TEXT_MAX 300

struct search {
    const struct pb_peers_list *list;
    const struct pb_global_scope *w;
    struct pb_buf text;
    bool unsure; /* the ranks of some node were too many to be passed on */
};

static bool is_living(const struct pb_member *m)
{
    return m->state != PB_MEMBER_LEFT;
}

/* Adds the ranks of one job at all nodes; the size of the job as they say it. */
static uint32_t add_known(struct search *s, const char *key, struct pb_ranges *ret)
{
    uint32_t world = 0;

    for (size_t i = 0; i < s->list->n; i++) {
        const struct pb_member *m = &s->list->v[i];

        for (size_t k = 0; is_living(m) && k < m->njobs; k++) {
            const struct pb_member_job *j = &m->jobs[k];

            if (!pb_global_is_of_job(j, s->w->job) || (key && strcmp(j->key, key) != 0))
                continue;
            if (!j->ranks[0] || pb_ranges_parse(ret, j->ranks, NULL) < 0)
                s->unsure = true;
            world = j->world > world ? j->world : world;
        }
    }
    return world;
}

static void put_rest(struct search *s, const struct pb_ranges *wanted,
                     const struct pb_ranges *known, const char *job)
{
    struct pb_ranges rest = {0};

    pb_ranges_without(wanted, known, &rest);
    if (rest.n) {
        pb_buf_puts(&s->text, s->text.len ? " and " : "");
        pb_ranges_text(&rest, &s->text);
        if (job)
            pb_buf_printf(&s->text, " of %s", job);
    }
    pb_ranges_finish(&rest);
}

/* Has the job of v[at].jobs[k] been there before? */
static bool is_first(const struct search *s, size_t at, size_t k)
{
    const char *key = s->list->v[at].jobs[k].key;

    for (size_t i = 0; i <= at; i++)
        for (size_t n = 0; is_living(&s->list->v[i]) && n < s->list->v[i].njobs; n++)
            if (strcmp(s->list->v[i].jobs[n].key, key) == 0)
                return i == at && n == k;
    return true;
}

/* All ranks are meant: those of each job, as many as its ranks say that there are. */
static void search_jobs(struct search *s)
{
    for (size_t i = 0; i < s->list->n; i++) {
        const struct pb_member *m = &s->list->v[i];

        for (size_t k = 0; is_living(m) && k < m->njobs; k++) {
            const struct pb_member_job *j = &m->jobs[k];
            struct pb_ranges known = {0}, all = {0};
            uint32_t world;

            if (!pb_global_is_of_job(j, s->w->job) || !is_first(s, i, k))
                continue;
            world = add_known(s, j->key, &known);
            if (world && pb_ranges_add(&all, 0, world - 1))
                put_rest(s, &all, &known, j->script[0] ? j->script : j->key);
            pb_ranges_finish(&known);
            pb_ranges_finish(&all);
        }
    }
}

const char *pb_global_absent(const struct pb_peers_list *list, const struct pb_global_scope *w,
                             struct pb_arena *a)
{
    struct search s = {.list = list, .w = w};
    struct pb_ranges wanted = {0}, known = {0};
    const char *text;

    if (!w->ranks && !w->job)
        return NULL;
    if (!w->ranks || pb_ranges_parse(&wanted, w->ranks, NULL) < 0 ||
        pb_ranges_has(&wanted, PB_RANGES_VALUE_MAX)) {
        search_jobs(&s);
    } else {
        add_known(&s, NULL, &known);
        put_rest(&s, &wanted, &known, NULL);
    }
    pb_ranges_finish(&wanted);
    pb_ranges_finish(&known);
    text = s.text.len && !s.unsure ? pb_arena_printf(a, "%.*s%s", TEXT_MAX, s.text.data,
                                                     s.text.len > TEXT_MAX ? "…" : "")
                                   : NULL;
    pb_buf_finish(&s.text);
    return text;
}
