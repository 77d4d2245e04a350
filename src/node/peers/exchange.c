/* One node talks to another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cluster/fan.h"
#include "host/text/alloc.h"
#include "host/text/json_write.h"
#include "node/peers/internal.h"

#define NS_PER_MS 1000000ull
#define PATH "/api/cluster/gossip"
#define ANSWER_MAX (8 << 20)
/* Whole lists are compared no more often than that. */
#define DIGEST_EVERY_NS (10000 * NS_PER_MS)
#define GOODBYES 3

static int collect(const void *data, size_t len, void *arg, struct pb_err *err)
{
    struct pb_buf *b = arg;

    if (b->len + len > ANSWER_MAX)
        return pb_err_set(err, PB_FAIL, "its answer is too long");
    pb_buf_add(b, data, len);
    return 0;
}

/* One question and its answer, parsed in the arena. */
static int talk(struct pb_peers *p, struct pb_fan_one *one, const struct pb_buf *question,
                int timeout_ms, struct pb_arena *a, struct pb_json *ret, struct pb_err *err)
{
    struct pb_buf answer = PB_BUF_INIT;
    struct pb_key key;
    struct pb_fan_request r = {.method = "POST", .path = PATH, .body = question->data,
                               .body_len = question->len, .key = &key,
                               .deadline_ns = pb_clock_ns() + (uint64_t)timeout_ms * NS_PER_MS};
    int rc = -1;

    one->sink = collect;
    one->arg = &answer;
    if (!pb_peers_key(p, &key))
        return pb_err_set(err, PB_DENIED, "there is no token for this cluster");
    if (pb_fan_ask(one, 1, &r) == 1)
        rc = pb_json_parse(a, answer.data ? answer.data : "", answer.len, ret, err);
    else if (err)
        *err = one->err;
    atomic_fetch_add(&p->exchanges, 1);
    pb_peers_add_bytes(p, one->bytes_in, one->bytes_out);
    explicit_bzero(&key, sizeof key);
    pb_buf_finish(&answer);
    return rc;
}

void pb_peers_note_own(struct pb_peers *p, const char *own)
{
    struct pb_member *self = pb_members_self(&p->members);
    char address[PB_MEMBER_ADDRESS];

    if (!self || !*own || !p->port)
        return;
    snprintf(address, sizeof address, strchr(own, ':') ? "[%.46s]:%d" : "%.46s:%d", own, p->port);
    if (pb_member_add_address(self, address))
        pb_member_touch(self);
}

/* With the lock held. */
static void note_clock(struct pb_peers *p, const char *id, const struct pb_json *answer,
                       const struct pb_fan_one *one)
{
    struct pb_member *it = pb_members_find(&p->members, id);
    int64_t offset;
    uint64_t error, now = pb_clock_ns();

    if (!it || !pb_gossip_clock(answer, one->sent_ns, one->received_ns, &offset, &error))
        return;
    /* A better measurement is kept for a minute: clocks drift by less than it errs. */
    if (it->error_ns && error > it->error_ns && now - it->offset_at_ns < 60000 * NS_PER_MS)
        return;
    it->offset_ns = offset;
    it->error_ns = error;
    it->offset_at_ns = now;
}

/* What goes on in one exchange: the first message, and up to two more while lists differ. */
struct exchange {
    struct pb_peers *p;
    const char *address, *id;
    int timeout_ms;
    char found[PB_MEMBER_ID];
    struct pb_arena arena;
    struct pb_json answer;
};

/* With the lock held: may the whole list go out now? */
static bool wants_digest(struct pb_peers *p, const struct pb_json *answer)
{
    char sum[24];
    uint64_t now = pb_clock_ns();

    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)pb_members_sum(&p->members));
    if (strcmp(sum, pb_json_str(answer, "sum", sum)) == 0 ||
        (p->digest_ns && now - p->digest_ns < DIGEST_EVERY_NS && pb_members_count(&p->members) > 8))
        return false;
    p->digest_ns = now;
    return true;
}

static int take_answer(struct exchange *x, const struct pb_fan_one *one, struct pb_err *err)
{
    struct pb_peers *p = x->p;
    const char *id = pb_json_str(&x->answer, "id", "");
    int rc;

    pthread_mutex_lock(&p->lock);
    rc = pb_gossip_check(&x->answer, p->name, err);
    if (rc == 0 && strlen(id) != PB_MEMBER_ID - 1)
        rc = pb_err_set(err, PB_FAIL, "what answers is no node of a cluster");
    if (rc == 0 && x->id && strcmp(id, x->id) != 0)
        rc = pb_err_set(err, PB_NO_TARGET, "another node is there now");
    if (rc == 0) {
        strcpy(x->found, id);
        pb_gossip_take(&p->members, &x->answer, pb_clock_ns());
        pb_peers_note_own(p, one->own);
        note_clock(p, id, &x->answer, one);
    } else {
        atomic_fetch_add(&p->refused, 1);
    }
    pthread_mutex_unlock(&p->lock);
    return rc;
}

static int send_message(struct exchange *x, bool digest, const struct pb_json *want,
                        struct pb_err *err)
{
    struct pb_peers *p = x->p;
    struct pb_fan_one one = {.address = x->address};
    struct pb_gossip_question q = {.digest = digest, .want = want};
    struct pb_buf b = PB_BUF_INIT;
    char name[PB_GOSSIP_NAME];
    int rc;

    pthread_mutex_lock(&p->lock);
    memcpy(name, p->name, sizeof name);
    q.cluster = name;
    q.from = p->observer ? "" : p->members.self;
    q.port = p->port;
    pb_gossip_ask(&b, &p->members, &q);
    pthread_mutex_unlock(&p->lock);
    rc = talk(p, &one, &b, x->timeout_ms, &x->arena, &x->answer, err);
    if (rc == 0)
        rc = take_answer(x, &one, err);
    pb_buf_finish(&b);
    return rc;
}

/* One of many answers. */
static void take_meeting(struct pb_peers *p, struct pb_fan_one *one, const struct pb_buf *answer,
                         struct pb_peers_seed *ret)
{
    struct exchange x = {.p = p, .address = one->address};
    const struct pb_member *it;

    pb_peers_add_bytes(p, one->bytes_in, one->bytes_out);
    if (!one->answered)
        ret->err = one->err;
    else if (pb_json_parse(&x.arena, answer->data ? answer->data : "", answer->len, &x.answer,
                           &ret->err) == 0 &&
             take_answer(&x, one, &ret->err) == 0) {
        pb_peers_heard(p, x.found, one->address, NULL);
        pthread_mutex_lock(&p->lock);
        it = pb_members_find(&p->members, x.found);
        snprintf(ret->host, sizeof ret->host, "%s", it ? it->host : "?");
        pthread_mutex_unlock(&p->lock);
    }
    pb_arena_finish(&x.arena);
}

void pb_peers_meet(struct pb_peers *p, const char *const *addresses, size_t n, int timeout_ms,
                   struct pb_peers_seed *ret)
{
    struct pb_fan_one *v = pb_alloc_resize(NULL, (n + 1) * sizeof *v);
    struct pb_buf *answers = pb_alloc_resize(NULL, (n + 1) * sizeof *answers);
    struct pb_buf question = PB_BUF_INIT;
    struct pb_gossip_question q = {0};
    struct pb_key key;
    struct pb_fan_request r = {.method = "POST", .path = PATH, .key = &key,
                               .deadline_ns = pb_clock_ns() + (uint64_t)timeout_ms * NS_PER_MS};

    for (size_t i = 0; i < n; i++) {
        answers[i] = (struct pb_buf)PB_BUF_INIT;
        ret[i] = (struct pb_peers_seed){.address = addresses[i]};
        v[i] = (struct pb_fan_one){.address = addresses[i], .sink = collect, .arg = &answers[i]};
    }
    pthread_mutex_lock(&p->lock);
    q.cluster = p->name;
    q.from = p->observer ? "" : p->members.self;
    q.port = p->port;
    pb_gossip_ask(&question, &p->members, &q);
    key = p->key;
    pthread_mutex_unlock(&p->lock);
    r.body = question.data;
    r.body_len = question.len;
    pb_fan_ask(v, n, &r);
    for (size_t i = 0; i < n; i++) {
        take_meeting(p, &v[i], &answers[i], &ret[i]);
        pb_buf_finish(&answers[i]);
    }
    explicit_bzero(&key, sizeof key);
    pb_buf_finish(&question);
    free(answers);
    free(v);
}

static bool has_items(const struct pb_json *list)
{
    return list && list->type == PB_J_ARRAY && list->n;
}

int pb_peers_exchange(struct pb_peers *p, const char *address, const char *id, int timeout_ms,
                      char ret_id[PB_MEMBER_ID], struct pb_err *err)
{
    struct exchange x = {.p = p, .address = address, .id = id, .timeout_ms = timeout_ms};
    int rc = send_message(&x, false, NULL, err);
    bool digest;

    if (rc == 0) {
        pthread_mutex_lock(&p->lock);
        digest = wants_digest(p, &x.answer);
        pthread_mutex_unlock(&p->lock);
        if (digest)
            rc = send_message(&x, true, NULL, err);
        if (rc == 0 && digest && has_items(pb_json_get(&x.answer, "want")))
            rc = send_message(&x, false, pb_json_get(&x.answer, "want"), err);
    }
    if (ret_id)
        memcpy(ret_id, x.found, sizeof x.found);
    pb_arena_finish(&x.arena);
    return rc;
}

int pb_peers_reach(struct pb_peers *p, const char *id, int timeout_ms, struct pb_err *err)
{
    char at[PB_MEMBER_ADDRESSES + 1][PB_MEMBER_ADDRESS];
    const struct pb_member *it;
    size_t n = 0;
    int rc = -1;

    pthread_mutex_lock(&p->lock);
    it = pb_members_find(&p->members, id);
    if (it && it->via[0])
        strcpy(at[n++], it->via);
    for (size_t i = 0; it && i < it->nat; i++)
        if (strcmp(it->at[i], it->via) != 0)
            strcpy(at[n++], it->at[i]);
    pthread_mutex_unlock(&p->lock);
    if (!n)
        return pb_err_set(err, PB_NO_TARGET, "nobody has reached it yet");
    for (size_t i = 0; i < n && rc < 0; i++) {
        struct pb_err why = {0};

        rc = pb_peers_exchange(p, at[i], id, timeout_ms / (int)n, NULL, &why);
        pb_peers_heard(p, id, at[i], rc == 0 ? NULL : &why);
        if (rc < 0 && err)
            *err = why;
    }
    return rc;
}

bool pb_peers_reached_by(struct pb_peers *p, const char *other, const char *id, int timeout_ms)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_buf b = PB_BUF_INIT;
    char address[PB_MEMBER_ADDRESS] = "", name[PB_GOSSIP_NAME];
    struct pb_fan_one one = {.address = address};
    const struct pb_member *it;
    struct pb_json answer = {0};
    bool reached = false;

    pthread_mutex_lock(&p->lock);
    memcpy(name, p->name, sizeof name);
    it = pb_members_find(&p->members, other);
    if (it)
        strcpy(address, pb_member_address(it));
    pthread_mutex_unlock(&p->lock);
    pb_buf_printf(&b, "{\"protocol\":%d", PB_GOSSIP_PROTOCOL);
    pb_json_key(&b, "cluster");
    pb_json_string(&b, name);
    pb_json_key(&b, "probe");
    pb_json_string(&b, id);
    pb_json_key(&b, "ms");
    pb_json_int(&b, timeout_ms / 2);
    pb_buf_putc(&b, '}');
    if (*address && talk(p, &one, &b, timeout_ms, &a, &answer, NULL) == 0)
        reached = pb_json_flag(&answer, "reached", false);
    pb_buf_finish(&b);
    pb_arena_finish(&a);
    return reached;
}

void pb_peers_say_goodbye(struct pb_peers *p)
{
    char at[GOODBYES][PB_MEMBER_ADDRESS];
    struct pb_member *self;
    size_t n = 0;

    pthread_mutex_lock(&p->lock);
    self = pb_members_self(&p->members);
    for (size_t i = 0; self && i < p->members.n && n < GOODBYES; i++) {
        const struct pb_member *it = p->members.v[i];

        if (it != self && it->state == PB_MEMBER_ALIVE && *pb_member_address(it))
            strcpy(at[n++], pb_member_address(it));
    }
    if (self) {
        pb_member_touch(self);
        self->state = PB_MEMBER_LEFT;
    }
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < n; i++)
        pb_peers_exchange(p, at[i], NULL, 500, NULL, NULL);
}
