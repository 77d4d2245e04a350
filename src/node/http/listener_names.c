/* listener_names.c - names under which proxies lead to a listener: "hub.example,other.example" */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "node/http/conn.h"

bool pb_listener_has_name(struct pb_server *s, const struct pb_listener *l, const char *name)
{
    size_t len = strlen(name);
    bool found = false;

    pthread_mutex_lock(&s->lock);
    for (const char *p = l->names; *p && !found; p += strcspn(p, ",") + (strchr(p, ',') != NULL))
        found = strcspn(p, ",") == len && strncasecmp(p, name, len) == 0;
    pthread_mutex_unlock(&s->lock);
    return found;
}

/* The oldest names make room for a new one. */
void pb_listener_add_name(struct pb_listener *l, const char *name)
{
    char names[sizeof l->names] = "";
    size_t room = sizeof names - strlen(name) - 2;
    int n = snprintf(names, sizeof names, "%s", name);

    for (char *rest = l->names, *one; (one = strsep(&rest, ",")) != NULL;)
        if (*one && strcasecmp(one, name) != 0 && strlen(one) + 1 <= room) {
            n += snprintf(names + n, sizeof names - (size_t)n, ",%s", one);
            room -= strlen(one) + 1;
        }
    memcpy(l->names, names, sizeof names);
}

int pb_listener_check_name(const char *name, struct pb_err *err)
{
    if (!name || (*name && strlen(name) < PB_HTTP_NAME_MAX &&
                  !name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789.-_")]))
        return 0;
    return pb_err_set(err, PB_USAGE, "'%.60s' is no name of a host", name);
}
