#include "node/live.h"

#define PB_LIVE(name) extern const struct pb_live pb_live_##name;
#include "node/tables.def"
#undef PB_LIVE

const struct pb_live *const pb_lives[] = {
#define PB_LIVE(name) &pb_live_##name,
#include "node/tables.def"
#undef PB_LIVE
    NULL,
};
