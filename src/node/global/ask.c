/* Who is asked, and how it went. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cluster/ranges.h"
#include "node/global/internal.h"

#define CONNECT_MS 2000
#define NAMED_MAX 5

bool pb_global_is_of_job(const struct pb_member_job *j, const char *job)
{
    size_t len = strlen(j->script);

    if (!job || strcmp(j->key, job) == 0 || strcmp(j->script, job) == 0)
        return true;
    return len > 3 && strcmp(j->script + len - 3, ".py") == 0 && strlen(job) == len - 3 &&
           strncmp(j->script, job, len - 3) == 0;
}

/* Does a node have ranks that are meant? job: the first job that has, if that is NULL. */
static bool has_ranks(const struct pb_member *m, const struct pb_global_scope *w,
                      const struct pb_ranges *wanted, const char **job, const char **other)
{
    bool found = false;

    for (size_t i = 0; i < m->njobs; i++) {
        const struct pb_member_job *j = &m->jobs[i];
        struct pb_ranges here = {0};

        /* A list that was too long to pass on is empty: they may be there. */
        if (pb_global_is_of_job(j, w->job) &&
            (!w->ranks || !j->ranks[0] ||
             (pb_ranges_parse(&here, j->ranks, NULL) == 0 &&
              pb_ranges_meet(&here, wanted, NULL)))) {
            found = true;
            if (!*job)
                *job = j->key;
            else if (strcmp(*job, j->key) != 0)
                *other = j->key;
        }
        pb_ranges_finish(&here);
    }
    return found;
}

/* "ranks 0-7 of train.py", for whoever asked for others. */
static const char *known_ranks(const struct pb_peers_list *list, struct pb_arena *a)
{
    struct pb_ranges all = {0};
    struct pb_buf b = PB_BUF_INIT;
    const char *text = "no rank is known";

    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < list->v[i].njobs && list->v[i].state <= PB_MEMBER_SUSPECT; k++)
            if (list->v[i].jobs[k].ranks[0])
                pb_ranges_parse(&all, list->v[i].jobs[k].ranks, NULL);
    if (all.n) {
        pb_ranges_text(&all, &b);
        text = pb_arena_printf(a, "there are %.200s", b.data);
    }
    pb_ranges_finish(&all);
    pb_buf_finish(&b);
    return text;
}

static int no_such(const struct pb_peers_list *list, const struct pb_global_scope *w,
                   struct pb_arena *a, struct pb_err *err)
{
    const char *known = known_ranks(list, a);

    if (w->ranks && strcmp(w->ranks, PB_RANGES_ALL) != 0)
        return pb_err_set(err, PB_NO_TARGET, "no such rank in the cluster: %s%s%s; %s", w->ranks,
                          w->job ? " of " : "", w->job ? w->job : "", known);
    if (w->job)
        return pb_err_set(err, PB_NO_TARGET, "no such job in the cluster: %s; %s", w->job, known);
    return pb_err_set(err, PB_NO_TARGET, w->ranks ? "no rank of a job runs in the cluster"
                                                  : "no node of the cluster is there");
}

/* Which of the members are asked; the dead that had such ranks are missing. */
static int choose(struct pb_global_nodes *ret, const struct pb_peers_list *list,
                  const struct pb_global_scope *w, struct pb_arena *a, struct pb_err *err)
{
    struct pb_ranges wanted = {0};
    const char *job = NULL, *other = NULL;
    int rc = w->ranks ? pb_ranges_parse(&wanted, w->ranks, err) : 0;

    ret->v = PB_NEW_N(a, struct pb_global_node, list->n + list->nlost + 1);
    for (size_t i = 0; rc == 0 && i < list->n; i++) {
        const struct pb_member *m = &list->v[i];
        bool self = i == 0 && !list->observer, alive = self || m->state <= PB_MEMBER_SUSPECT;
        bool meant = !(w->ranks || w->job) || has_ranks(m, w, &wanted, &job, &other);

        if (!meant || m->state == PB_MEMBER_LEFT)
            continue;
        ret->v[ret->n++] = (struct pb_global_node){
            .id = m->id,
            .host = m->host,
            .address = self ? "" : pb_member_address(m),
            .asked = alive,
            .why = alive          ? NULL
                   : m->reason[0] ? pb_arena_printf(a, "gone: %s", m->reason)
                                  : "gone",
        };
        ret->asked += alive;
    }
    for (size_t i = 0; i < list->nlost; i++)
        ret->v[ret->n++] = (struct pb_global_node){
            .id = "", .host = list->lost[i], .address = list->lost[i],
            .why = "known from before this node was started, does not answer"};
    if (rc == 0 && other && w->ranks && !w->job)
        rc = pb_err_set(err, PB_USAGE, "%.60s are ranks of several jobs: %.80s and %.80s; name "
                                       "one: ranks:%.60s@NAME", w->ranks, job, other, w->ranks);
    if (rc == 0 && !ret->asked)
        rc = no_such(list, w, a, err);
    if (rc == 0) {
        ret->no_node = pb_global_absent(list, w, a);
        ret->twice = pb_global_twice(list, w, a);
    }
    pb_ranges_finish(&wanted);
    return rc;
}

int pb_global_choose(struct pb_node *n, const struct pb_global_scope *w, struct pb_arena *a,
                     struct pb_global_nodes *ret, struct pb_err *err)
{
    struct pb_peers_list list;

    *ret = (struct pb_global_nodes){0};
    if (!n->peers)
        return pb_err_set(err, PB_NO_TARGET, "this node belongs to no cluster");
    pb_peers_list(n->peers, a, &list);
    if (!list.attached)
        return pb_err_set(err, PB_NO_TARGET, "this node belongs to no cluster: probing cluster "
                                             "attach");
    return choose(ret, &list, w, a, err);
}

int pb_global_fan(struct pb_node *n, struct pb_fan_one *v, size_t count,
                  struct pb_global_node *const *of, struct pb_fan_request *r, struct pb_arena *a,
                  struct pb_err *err)
{
    struct pb_key key;

    if (!pb_peers_key(n->peers, &key))
        return pb_err_set(err, PB_DENIED, "there is no token for this cluster");
    for (size_t i = 0; i < count; i++) {
        if (*of[i]->address)
            v[i].address = of[i]->address;
        else
            v[i].socket = n->opts.socket;
    }
    r->key = &key;
    r->connect_ms = CONNECT_MS;
    r->method = "POST";
    pb_fan_ask(v, count, r);
    explicit_bzero(&key, sizeof key);
    for (size_t i = 0; i < count; i++) {
        struct pb_global_node *one = of[i];
        double ms = (double)v[i].took_ns / 1e6;

        one->ms = ms > one->ms ? ms : one->ms;
        one->bytes += v[i].bytes_in;
        if (*one->address) {
            pb_peers_add_bytes(n->peers, v[i].bytes_in, v[i].bytes_out);
            pb_peers_heard(n->peers, one->id, one->address,
                           v[i].answered || v[i].received_ns ? NULL : &v[i].err);
        }
        if (!v[i].answered && !one->why)
            one->why = pb_arena_strdup(a, v[i].err.msg);
    }
    return 0;
}

void pb_global_count(struct pb_global_nodes *nodes)
{
    nodes->answered = nodes->bytes = 0;
    for (size_t i = 0; i < nodes->n; i++) {
        nodes->v[i].answered = nodes->v[i].asked && !nodes->v[i].why;
        nodes->answered += nodes->v[i].answered;
        nodes->bytes += nodes->v[i].bytes;
    }
}

struct taking {
    struct pb_global_node *node;
    size_t max;
};

static int take(const void *data, size_t len, void *arg, struct pb_err *err)
{
    struct taking *t = arg;

    if (t->node->answer.len + len > t->max)
        return pb_err_set(err, PB_FAIL, "its answer is longer than %zu MB", t->max >> 20);
    pb_buf_add(&t->node->answer, data, len);
    return 0;
}

int pb_global_ask(struct pb_node *n, const struct pb_global_scope *w, const char *path,
                  const char *body, size_t max, uint64_t deadline_ns, const _Atomic bool *cancelled,
                  struct pb_arena *a, struct pb_global_nodes *ret, struct pb_err *err)
{
    struct pb_fan_request r = {.path = path, .body = body, .body_len = strlen(body),
                               .deadline_ns = deadline_ns, .cancelled = cancelled};
    struct pb_global_node **of;
    struct pb_fan_one *v;
    struct taking *taking;
    size_t count = 0;

    if (pb_global_choose(n, w, a, ret, err) < 0)
        return -1;
    of = PB_NEW_N(a, struct pb_global_node *, ret->n + 1);
    v = PB_NEW_N(a, struct pb_fan_one, ret->n + 1);
    taking = PB_NEW_N(a, struct taking, ret->n + 1);
    for (size_t i = 0; i < ret->n; i++) {
        if (!ret->v[i].asked)
            continue;
        taking[count] = (struct taking){&ret->v[i], max};
        v[count].sink = take;
        v[count].arg = &taking[count];
        of[count++] = &ret->v[i];
    }
    if (pb_global_fan(n, v, count, of, &r, a, err) < 0)
        return -1;
    pb_global_count(ret);
    return 0;
}

void pb_global_finish(struct pb_global_nodes *nodes)
{
    for (size_t i = 0; i < nodes->n; i++)
        pb_buf_finish(&nodes->v[i].answer);
}

void pb_global_json(struct pb_buf *b, const struct pb_global_nodes *nodes, size_t named)
{
    size_t left_out = 0;

    pb_buf_putc(b, '{');
    pb_json_key(b, "asked");
    pb_json_int(b, (int64_t)nodes->asked);
    pb_json_key(b, "answered");
    pb_json_int(b, (int64_t)nodes->answered);
    pb_json_key(b, "bytes");
    pb_json_int(b, (int64_t)nodes->bytes);
    pb_json_key(b, "missing");
    pb_buf_putc(b, '[');
    for (size_t i = 0; i < nodes->n; i++) {
        const struct pb_global_node *one = &nodes->v[i];

        if (one->answered)
            continue;
        if (!named) {
            left_out++;
            continue;
        }
        named--;
        pb_json_comma(b);
        pb_buf_putc(b, '{');
        pb_json_key(b, "node");
        pb_json_string(b, one->host);
        pb_json_key(b, "address");
        pb_json_string(b, one->address);
        pb_json_key(b, "reason");
        pb_json_string(b, one->why ? one->why : "");
        pb_buf_putc(b, '}');
    }
    pb_buf_putc(b, ']');
    if (left_out) {
        pb_json_key(b, "left_out");
        pb_json_int(b, (int64_t)left_out);
    }
    if (nodes->no_node) {
        pb_json_key(b, "ranks_missing");
        pb_json_string(b, nodes->no_node);
    }
    if (nodes->twice) {
        pb_json_key(b, "ranks_twice");
        pb_json_string(b, nodes->twice);
    }
    pb_buf_putc(b, '}');
}

const char *pb_global_missing(const struct pb_global_nodes *nodes, struct pb_arena *a)
{
    struct pb_buf b = PB_BUF_INIT;
    size_t named = 0, missing = nodes->n - nodes->answered;
    const char *text;

    if (!missing && !nodes->no_node)
        return NULL;
    pb_buf_printf(&b, "%zu of %zu nodes answered; missing: ", nodes->answered, nodes->n);
    for (size_t i = 0; i < nodes->n && named < NAMED_MAX; i++) {
        const struct pb_global_node *one = &nodes->v[i];

        if (!one->answered)
            pb_buf_printf(&b, "%s%s (%s)", named++ ? ", " : "", one->host,
                          one->why ? one->why : "no reason");
    }
    if (missing > named)
        pb_buf_printf(&b, " and %zu more", missing - named);
    if (nodes->no_node)
        pb_buf_printf(&b, "%srank%s %s (at no node that is known)", missing ? "; " : "",
                      strpbrk(nodes->no_node, ",-") ? "s" : "", nodes->no_node);
    text = pb_arena_strdup(a, b.data);
    pb_buf_finish(&b);
    return text;
}
