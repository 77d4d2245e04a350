#include "node/access/audit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "schema/probing_audit.h"
#include "schema/table.h"

PB_TABLE_COLUMNS(PB_PROBING_AUDIT);

static const struct pb_ring_spec table = {
    PB_TABLE_SPEC(PB_PROBING_AUDIT_NAME, PB_PROBING_AUDIT_DOC),
    .rows = 1024,
    .dict_bytes = 4096,
    .heap_bytes = 256 << 10,
};

struct pb_node_audit {
    pthread_mutex_t lock;
    struct pb_ring *ring;
};

struct pb_node_audit *pb_node_audit_create(int dir)
{
    struct pb_node_audit *a = calloc(1, sizeof *a);
    const char *note = NULL;

    if (a && pb_ring_create(&a->ring, dir, &table, &note, NULL) < 0) {
        free(a);
        return NULL;
    }
    if (a)
        pthread_mutex_init(&a->lock, NULL);
    return a;
}

void pb_node_audit_destroy(struct pb_node_audit *a)
{
    if (!a)
        return;
    pb_ring_close(a->ring);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

void pb_node_audit_write(struct pb_node_audit *a, const struct pb_node_audit_row *r)
{
    union pb_cell row[NCOLUMNS];

    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    row[AT_timestamp].i = pb_clock_wall_ns();
    row[AT_action].name = pb_ring_name(a->ring, r->action, strlen(r->action));
    row[AT_peer_uid].i = row[AT_peer_pid].i = PB_NULL_INT;
    /* Text, not a name: each attempt comes from another port, and names are kept for ever. */
    row[AT_client].text.s = r->client;
    row[AT_client].text.len = strlen(r->client);
    row[AT_detail].text.s = r->detail;
    row[AT_detail].text.len = strlen(r->detail);
    row[AT_result].name = pb_ring_name(a->ring, r->result, strlen(r->result));
    row[AT_ms].d = pb_null_real();
    pb_ring_append(a->ring, row);
    pthread_mutex_unlock(&a->lock);
}
