#include <strings.h>

#include "node/sample/sampler.h"
#include "node/rows/live.h"
#include "schema/table.h"

#define PB_TABLE(LIST)                                                                             \
    static const struct pb_column_spec LIST##_columns[] = {LIST(PB_TABLE_COLUMN)};                 \
    static const struct pb_ring_spec LIST##_ring = {                                               \
        .name = LIST##_NAME,                                                                       \
        .doc = LIST##_DOC,                                                                         \
        .columns = LIST##_columns,                                                                 \
        .ncolumns = sizeof LIST##_columns / sizeof *LIST##_columns,                                \
    };
#include "schema/tables.def"
#undef PB_TABLE

#define PB_SAMPLER(name) extern const struct pb_sampler pb_sampler_##name;
#include "node/sample/samplers.def"
#undef PB_SAMPLER

#define PB_LIVE(name) extern const struct pb_live pb_live_##name;
#include "node/tables/live.def"
#undef PB_LIVE

const struct pb_known_table pb_known_tables[] = {
#define PB_TABLE(LIST) {.ring = &LIST##_ring},
#include "schema/tables.def"
#undef PB_TABLE
#define PB_SAMPLER(name) {.ring = &pb_sampler_##name.ring},
#include "node/sample/samplers.def"
#undef PB_SAMPLER
#define PB_LIVE(name) {.live = &pb_live_##name},
#include "node/tables/live.def"
#undef PB_LIVE
    {NULL, NULL},
};

const struct pb_ring_spec *pb_known_ring(const char *name)
{
    for (const struct pb_known_table *k = pb_known_tables; k->ring || k->live; k++)
        if (k->ring && strcasecmp(k->ring->name, name) == 0)
            return k->ring;
    return NULL;
}
