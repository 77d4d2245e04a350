#include "host/python/script.h"

#include <string.h>

/* Options of the interpreter that take the next word. */
static bool has_argument(const char *option)
{
    return strcmp(option, "-W") == 0 || strcmp(option, "-X") == 0;
}

const char *pb_script_of(const char *argv, size_t len)
{
    const char *end = argv + len, *p = argv + strnlen(argv, len) + 1;

    while (p < end) {
        const char *next = p + strlen(p) + 1;

        if (strcmp(p, "-m") == 0)
            return next < end ? next : NULL;
        if (p[0] != '-')
            return p;
        if (strcmp(p, "-c") == 0 || !p[1])
            return NULL;
        if (has_argument(p))
            next += next < end ? strlen(next) + 1 : 0;
        p = next;
    }
    return NULL;
}

/* "train.py" or "train" against "train.py": an ending may be left out. */
static bool same_name(const char *name, size_t len, const char *wanted)
{
    size_t n = strlen(wanted);

    return (n == len && memcmp(name, wanted, n) == 0) ||
           (n + 3 == len && memcmp(name, wanted, n) == 0 && memcmp(name + n, ".py", 3) == 0);
}

bool pb_script_runs(const char *argv, size_t len, const char *script)
{
    const char *found = pb_script_of(argv, len);

    while (found && *found) {
        if (same_name(found, strlen(found), script))
            return true;
        found = strchr(found, '/');
        found = found ? found + 1 : NULL;
    }
    return false;
}
