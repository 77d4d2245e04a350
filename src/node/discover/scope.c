#include "node/discover/scope.h"

#include <string.h>

bool pb_scope_is_node(const struct pb_scope *s)
{
    return s->all || s->living;
}

bool pb_scope_has_id(const struct pb_scope *s, const char *id)
{
    for (size_t i = 0; !s->all && i < s->nprocesses; i++)
        if (strcmp(s->processes[i].id, id) == 0)
            return true;
    return s->all;
}
