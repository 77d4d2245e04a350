#include "host/text/nearest.h"

#include <string.h>
#include <strings.h>

#include "base/settings.h"

#define WORD_MAX 63

static size_t min2(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t pb_nearest_distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    size_t rows[3][WORD_MAX + 1]; /* the row being made and the two above it */

    if (n > WORD_MAX || m > WORD_MAX)
        return n > m ? n : m;
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = rows[i % 3], *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = min2(min2(up[j], row[j - 1]) + 1, up[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = min2(row[j], up2[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

void pb_nearest_offer(struct pb_nearest *n, const char *name)
{
    size_t len = strlen(n->word);
    size_t d = pb_nearest_distance(n->word, name);

    /* A beginning that was typed, "back", is nearer than its length says. */
    if (len >= 3 && strncmp(n->word, name, len) == 0)
        d = 1;
    if (d < n->distance) {
        n->best = name;
        n->distance = d;
    }
}

const char *pb_nearest_result(const struct pb_nearest *n)
{
    size_t len = strlen(n->word);
    size_t limit = len < 3 ? 1 : len < 7 ? 2 : 3;

    return n->best && n->distance <= limit && n->distance < len ? n->best : NULL;
}

const char *pb_nearest_setting(const char *key)
{
    struct pb_nearest n = PB_NEAREST_INIT(strncasecmp(key, "probing.", 8) == 0 ? key + 8 : key);

    for (int i = 0; i < PB_SETTING_COUNT; i++)
        pb_nearest_offer(&n, pb_setting_list[i].name);
    return pb_nearest_result(&n);
}
