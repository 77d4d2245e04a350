#include "agent/collect/audit.h"

#include <string.h>

#include "agent/collect/collect.h"
#include "base/clock.h"
#include "store/tables/probing_audit.h"
#include "store/tables/table.h"
#include "store/text.h"

enum { DETAIL_MAX = 2048 };

static const struct pb_column_spec columns[] = {PB_PROBING_AUDIT(PB_TABLE_COLUMN)};
static const struct pb_ring_spec table = {
    .name = PB_PROBING_AUDIT_NAME,
    .doc = PB_PROBING_AUDIT_DOC,
    .columns = columns,
    .ncolumns = sizeof columns / sizeof *columns,
    .rows = 512,
    .dict_bytes = 4096,
    .heap_bytes = 64 << 10,
};
enum {
#define X(name, type, unit, doc) AT_##name,
    PB_PROBING_AUDIT(X)
#undef X
        NCOLUMNS
};

void pb_audit_prepare(struct pb_self *self)
{
    pb_collect_ring(self, &table);
}

void pb_audit_write(struct pb_self *self, const struct pb_audit *a)
{
    struct pb_ring *ring = pb_collect_ring(self, &table);
    union pb_cell row[NCOLUMNS];

    if (!ring)
        return;
    row[AT_timestamp].i = a->wall_ns;
    row[AT_action].name = pb_ring_name(ring, a->action, strlen(a->action));
    row[AT_peer_uid].i = a->uid;
    row[AT_peer_pid].i = a->pid;
    row[AT_detail].text.s = a->detail;
    row[AT_detail].text.len = pb_text_cut(a->detail, a->detail_len, DETAIL_MAX);
    row[AT_result].name = pb_ring_name(ring, a->result, strlen(a->result));
    row[AT_ms].d = (double)(pb_clock_ns() - a->asked_ns) / 1e6;
    pb_ring_append(ring, row);
}
