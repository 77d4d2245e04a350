/*
 * What another user's ring may not say: anything about others, and what the tool's own tables are.
 */
#include <string.h>
#include <strings.h>

#include "node/discover/internal.h"
#include "schema/python_samples.h"
#include "schema/python_stack_frames.h"
#include "store/writer.h"

/* Tables about a machine and its processes, which nodes write: ours alone says what they are. */
static bool is_of_nodes(const char *table)
{
    static const char *const names[] = {"system.", "gpu.", PB_PYTHON_SAMPLES_NAME,
                                        PB_PYTHON_STACK_FRAMES_NAME};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t len = strlen(names[i]);

        if (strncasecmp(table, names[i], len) == 0 &&
            (names[i][len - 1] == '.' || table[len] == '\0'))
            return true;
    }
    return false;
}

int pb_foreign_ring_check(struct pb_reader *r, uid_t uid, pb_known_table_fn *known,
                          struct pb_err *err)
{
    const struct pb_ring_spec *spec = known ? known(r->name) : NULL;

    if ((r->flags & PB_RING_SHARED) || is_of_nodes(r->name))
        return pb_err_set(err, PB_FAIL, "rows about others' processes, written by user %u",
                          (unsigned)uid);
    /* Its types would become those of everybody's rows, in files for as long as history is kept. */
    if (spec && !pb_reader_restrict(r, spec->columns, spec->ncolumns))
        return pb_err_set(err, PB_FAIL, "none of its columns is one of this table");
    return 0;
}
