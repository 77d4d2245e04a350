/* Any bytes as a message of another node: the list stays whole, bounded, and speaks sense. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/gossip.h"
#include "cluster/ranges.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

static void check(const struct pb_members *m)
{
    const struct pb_member *self = pb_members_self(m);

    if (!self || self->state != PB_MEMBER_ALIVE || strcmp(self->host, "us") != 0)
        __builtin_trap(); /* nobody else says what we are */
    for (size_t i = 0; i < m->n; i++) {
        const struct pb_member *one = m->v[i];

        if (strlen(one->id) != PB_MEMBER_ID - 1 || one->nat > PB_MEMBER_ADDRESSES ||
            one->njobs > PB_MEMBER_JOBS || (i && strcmp(m->v[i - 1]->id, one->id) >= 0))
            __builtin_trap();
        for (size_t k = 0; k < one->njobs; k++) {
            struct pb_ranges r = {0};

            if (one->jobs[k].ranks[0] && pb_ranges_parse(&r, one->jobs[k].ranks, NULL) < 0)
                __builtin_trap();
            pb_ranges_finish(&r);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pb_member self = {.generation = 1000, .version = 1, .id = "00000000000000ff",
                             .host = "us"};
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_buf answer = PB_BUF_INIT, again = PB_BUF_INIT;
    struct pb_members m = {0};
    struct pb_json json, back;
    int64_t offset;
    uint64_t error;

    pb_members_set_self(&m, &self);
    if (pb_json_parse(&a, (const char *)data, size, &json, NULL) == 0) {
        pb_gossip_check(&json, "default", NULL);
        pb_gossip_take(&m, &json, 7);
        check(&m);
        pb_gossip_clock(&json, 1, 2, &offset, &error);
        pb_gossip_answer(&answer, &m, "default", &json, "10.0.0.1", 9);
        if (pb_json_parse(&a, answer.data, answer.len, &back, NULL) < 0)
            __builtin_trap();
        /* What we say ourselves is good enough for us. */
        m.refused = 0;
        pb_gossip_take(&m, &back, 8);
        if (m.refused)
            __builtin_trap();
        check(&m);
        pb_gossip_ask(&again, &m, &(struct pb_gossip_question){
            .cluster = "default", .from = m.self, .digest = true,
            .want = pb_json_get(&json, "want")});
        if (pb_json_parse(&a, again.data, again.len, &back, NULL) < 0)
            __builtin_trap();
    }
    pb_members_finish(&m);
    pb_buf_finish(&answer);
    pb_buf_finish(&again);
    pb_arena_finish(&a);
    return 0;
}

size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    static const char *const seeds[] = {
        "{\"protocol\":1,\"cluster\":\"default\",\"from\":\"00000000000000aa\",\"port\":7707,"
        "\"sum\":\"0\",\"members\":[{\"id\":\"00000000000000aa\",\"generation\":12,\"version\":3,"
        "\"state\":\"alive\",\"host\":\"a\",\"software\":\"0.1.0\",\"protocol\":1,"
        "\"at\":[\"10.0.0.1:7707\"],\"jobs\":[{\"job\":\"10.0.0.1:29500\",\"script\":\"train.py\","
        "\"ranks\":\"0-7,9\",\"world\":16,\"restarts\":1}]}],"
        "\"digest\":[[\"00000000000000aa\",12,3,0],[\"00000000000000ff\",1000,1,1]],"
        "\"want\":[\"00000000000000ff\"],\"came_ns\":5,"
        "\"went_ns\":6}",
        ("{\"members\":[{\"id\":\"00000000000000ff\",\"generation\":1000,\"version\":9,"
         "\"state\":\"gone\",\"protocol\":1,\"host\":\"them\"}]}"),
        "{\"members\":[],\"digest\":[]}",
    };
    size_t len;

    if (index < 0 || index >= (int)(sizeof seeds / sizeof *seeds))
        return 0;
    len = strlen(seeds[index]) < cap ? strlen(seeds[index]) : cap;
    memcpy(buf, seeds[index], len);
    return len;
}
