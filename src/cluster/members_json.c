/* Records on their way between nodes. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cluster/members.h"
#include "cluster/ranges.h"
#include "host/text/alloc.h"
#include "host/net/http.h"
#include "host/text/json_write.h"

/* No clock is that wrong. */
#define FUTURE_MS (86400ull * 1000)

static const char *const states[] = {"alive", "suspect", "gone", "left"};

const char *pb_member_state_name(enum pb_member_state state)
{
    return states[state];
}

static void write_job(struct pb_buf *b, const struct pb_member_job *j)
{
    pb_json_comma(b);
    pb_buf_putc(b, '{');
    pb_json_key(b, "job");
    pb_json_string(b, j->key);
    pb_json_key(b, "script");
    pb_json_string(b, j->script);
    pb_json_key(b, "ranks");
    pb_json_string(b, j->ranks);
    pb_json_key(b, "world");
    pb_json_int(b, j->world);
    pb_json_key(b, "restarts");
    pb_json_int(b, j->restarts);
    pb_buf_putc(b, '}');
}

void pb_member_write(struct pb_buf *b, const struct pb_member *one)
{
    pb_json_comma(b);
    pb_buf_putc(b, '{');
    pb_json_key(b, "id");
    pb_json_string(b, one->id);
    pb_json_key(b, "generation");
    pb_json_int(b, (int64_t)one->generation);
    pb_json_key(b, "version");
    pb_json_int(b, (int64_t)one->version);
    pb_json_key(b, "state");
    pb_json_string(b, states[one->state]);
    pb_json_key(b, "host");
    pb_json_string(b, one->host);
    pb_json_key(b, "software");
    pb_json_string(b, one->software);
    pb_json_key(b, "protocol");
    pb_json_int(b, one->protocol);
    pb_json_key(b, "at");
    pb_buf_putc(b, '[');
    for (size_t i = 0; i < one->nat; i++) {
        pb_json_comma(b);
        pb_json_string(b, one->at[i]);
    }
    pb_buf_putc(b, ']');
    pb_json_key(b, "jobs");
    pb_buf_putc(b, '[');
    for (size_t i = 0; i < one->njobs; i++)
        write_job(b, &one->jobs[i]);
    pb_buf_puts(b, "]}");
}

/* A text of printable characters that fits. */
static bool take_text(char *to, size_t cap, const struct pb_json *json, const char *key)
{
    const char *s = pb_json_str(json, key, "");

    if (strlen(s) >= cap)
        return false;
    for (const char *p = s; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return false;
    strcpy(to, s);
    return true;
}

static bool is_id(const char *s)
{
    return strlen(s) == PB_MEMBER_ID - 1 &&
           strspn(s, "0123456789abcdef") == PB_MEMBER_ID - 1;
}

static bool take_job(struct pb_member_job *to, const struct pb_json *json)
{
    int64_t world = pb_json_whole(json, "world", -1), restarts = pb_json_whole(json, "restarts", 0);
    struct pb_ranges ranks = {0};
    bool good;

    if (json->type != PB_J_OBJECT || !take_text(to->key, sizeof to->key, json, "job") ||
        !take_text(to->script, sizeof to->script, json, "script") ||
        !take_text(to->ranks, sizeof to->ranks, json, "ranks") || world < 0 ||
        world > PB_RANGES_VALUE_MAX || restarts < 0 || restarts > INT32_MAX)
        return false;
    to->world = (uint32_t)world;
    to->restarts = (uint32_t)restarts;
    good = !to->ranks[0] || pb_ranges_parse(&ranks, to->ranks, NULL) == 0;
    /* A rank that its own job has no room for is a lie. */
    if (good && ranks.n && world)
        good = ranks.v[ranks.n - 1].last < to->world;
    pb_ranges_finish(&ranks);
    return good;
}

static bool take_jobs(struct pb_member *to, const struct pb_json *json)
{
    const struct pb_json *jobs = pb_json_get(json, "jobs");

    if (!jobs)
        return true;
    if (jobs->type != PB_J_ARRAY || jobs->n > PB_MEMBER_JOBS)
        return false;
    if (jobs->n) {
        to->jobs = pb_alloc_resize(NULL, jobs->n * sizeof *to->jobs);
        memset(to->jobs, 0, jobs->n * sizeof *to->jobs);
    }
    for (size_t i = 0; i < jobs->n; i++, to->njobs++)
        if (!take_job(&to->jobs[i], &jobs->items[i]))
            return false;
    return true;
}

/* Numbers and a port, as a fan takes it. */
static bool is_address(const char *s)
{
    char host[PB_HTTP_NAME_MAX], port[8];
    const char *p;

    if (pb_http_split(s, host, port, NULL) < 0 || !*host)
        return false;
    for (p = host; *p && (isalnum((unsigned char)*p) || strchr(".:%", *p)); p++)
        ;
    return !*p && strpbrk(host, ".:") && atoi(port) > 0 && atoi(port) < 65536;
}

static bool take_addresses(struct pb_member *to, const struct pb_json *json)
{
    const struct pb_json *at = pb_json_get(json, "at");

    if (!at)
        return true;
    if (at->type != PB_J_ARRAY || at->n > PB_MEMBER_ADDRESSES)
        return false;
    for (size_t i = 0; i < at->n; i++, to->nat++) {
        if (at->items[i].type != PB_J_STRING || at->items[i].len >= PB_MEMBER_ADDRESS ||
            !is_address(at->items[i].s))
            return false;
        strcpy(to->at[i], at->items[i].s);
    }
    return true;
}

static bool take_all(struct pb_member *to, const struct pb_json *json)
{
    const char *id = pb_json_str(json, "id", ""), *state = pb_json_str(json, "state", "");
    int64_t generation = pb_json_whole(json, "generation", -1);
    int64_t version = pb_json_whole(json, "version", -1);
    int64_t protocol = pb_json_whole(json, "protocol", -1);
    int found = -1;

    for (int i = 0; i <= PB_MEMBER_LEFT; i++)
        if (strcmp(state, states[i]) == 0)
            found = i;
    if (!is_id(id) || found < 0 || version < 0 || (uint64_t)version > PB_MEMBER_VERSION_MAX ||
        protocol < 0 || protocol > 1000000 || generation < 0 ||
        (uint64_t)generation > (uint64_t)time(NULL) * 1000 + FUTURE_MS)
        return false;
    strcpy(to->id, id);
    to->state = (enum pb_member_state)found;
    to->generation = (uint64_t)generation;
    to->version = (uint64_t)version;
    to->protocol = (uint32_t)protocol;
    return take_text(to->host, sizeof to->host, json, "host") &&
           take_text(to->software, sizeof to->software, json, "software") &&
           take_addresses(to, json) && take_jobs(to, json);
}

int pb_member_read(struct pb_member *ret, const struct pb_json *json, struct pb_err *err)
{
    *ret = (struct pb_member){0};
    if (json->type == PB_J_OBJECT && take_all(ret, json))
        return 0;
    pb_member_finish(ret);
    *ret = (struct pb_member){0};
    return pb_err_set(err, PB_USAGE, "a record of a member that cannot be");
}
