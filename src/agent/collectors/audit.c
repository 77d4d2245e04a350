#include "agent/collectors/audit.h"

#include <stdio.h>
#include <string.h>

#include "agent/collectors/collect.h"
#include "base/clock.h"
#include "base/sha256.h"
#include "schema/probing_audit.h"
#include "schema/table.h"
#include "store/text.h"

enum { DETAIL_MAX = 2048 };

PB_TABLE_COLUMNS(PB_PROBING_AUDIT);
static const struct pb_ring_spec table = {
    PB_TABLE_SPEC(PB_PROBING_AUDIT_NAME, PB_PROBING_AUDIT_DOC),
    .rows = 512,
    .dict_bytes = 4096,
    .heap_bytes = 64 << 10,
};
void pb_audit_prepare(struct pb_self *self)
{
    pb_collect_ring(self, &table);
}

/* What is kept of evaluated code; buf is for its hash. */
static union pb_cell detail_of(const struct pb_self *self, const struct pb_audit *a,
                               char buf[PB_SHA256_TEXT + 40])
{
    union pb_cell cell = {.text = {a->detail, pb_text_cut(a->detail, a->detail_len, DETAIL_MAX)}};
    int64_t how = pb_self_setting(self, PB_SET_AUDIT_EVAL);

    if (!a->code || how == PB_AUDIT_FULL)
        return cell;
    if (how == PB_AUDIT_OFF || !a->detail)
        return (union pb_cell){.text = {NULL, 0}};
    memcpy(buf, "sha256:", 7);
    pb_sha256_text(a->detail, a->detail_len, buf + 7);
    snprintf(buf + 7 + PB_SHA256_TEXT - 1, 40, ", %zu bytes", a->detail_len);
    return (union pb_cell){.text = {buf, strlen(buf)}};
}

void pb_audit_write(struct pb_self *self, const struct pb_audit *a)
{
    struct pb_ring *ring = pb_collect_ring(self, &table);
    char hash[PB_SHA256_TEXT + 40];
    union pb_cell row[NCOLUMNS];
    bool named = a->client && *a->client;

    if (!ring)
        return;
    row[AT_timestamp].i = a->wall_ns;
    row[AT_action].name = pb_ring_name(ring, a->action, strlen(a->action));
    row[AT_peer_uid].i = a->uid == (uid_t)-1 ? PB_NULL_INT : (int64_t)a->uid;
    row[AT_peer_pid].i = a->pid > 0 ? a->pid : PB_NULL_INT;
    row[AT_client].text.s = named ? a->client : NULL;
    row[AT_client].text.len = named ? strlen(a->client) : 0;
    row[AT_detail] = detail_of(self, a, hash);
    row[AT_result].name = pb_ring_name(ring, a->result, strlen(a->result));
    row[AT_ms].d = (double)(pb_clock_ns() - a->asked_ns) / 1e6;
    pb_ring_append(ring, row);
}
