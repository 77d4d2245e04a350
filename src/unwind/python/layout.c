#include "unwind/python/layout.h"

#include <pthread.h>

/* The columns of versions.def; the array below stands in the same order. */
enum column { V34, V35, V36, V37, V37_4, V38, V39, V310, V311, V312 };

static const struct pb_py_layout layouts[] = {
    [V34] =
        {
#define ROW(field, v34, v35, v36, v37, v37_4, v38, v39, v310, v311, v312) .field = v34,
#include "unwind/python/versions.def"
        },
    [V35] =
        {
#define ROW(field, v34, v35, v36, v37, v37_4, v38, v39, v310, v311, v312) .field = v35,
#include "unwind/python/versions.def"
        },
    [V36] =
        {
#define ROW(field, v34, v35, v36, v37, v37_4, v38, v39, v310, v311, v312) .field = v36,
#include "unwind/python/versions.def"
        },
    [V37] =
        {
#define ROW(field, v34, v35, v36, v37, v37_4, v38, v39, v310, v311, v312) .field = v37,
#include "unwind/python/versions.def"
        },
    [V37_4] =
        {
#define ROW(field, v34, v35, v36, v37, v37_4, v38, v39, v310, v311, v312) .field = v37_4,
#include "unwind/python/versions.def"
        },
    [V38] =
        {
#define ROW(field, v34, v35, v36, v37, v37_4, v38, v39, v310, v311, v312) .field = v38,
#include "unwind/python/versions.def"
        },
    [V39] =
        {
#define ROW(field, v34, v35, v36, v37, v37_4, v38, v39, v310, v311, v312) .field = v39,
#include "unwind/python/versions.def"
        },
    [V310] =
        {
#define ROW(field, v34, v35, v36, v37, v37_4, v38, v39, v310, v311, v312) .field = v310,
#include "unwind/python/versions.def"
        },
    [V311] =
        {
#define ROW(field, v34, v35, v36, v37, v37_4, v38, v39, v310, v311, v312) .field = v311,
#include "unwind/python/versions.def"
        },
    [V312] =
        {
#define ROW(field, v34, v35, v36, v37, v37_4, v38, v39, v310, v311, v312) .field = v312,
#include "unwind/python/versions.def"
        },
};

const struct pb_py_layout *pb_py_layout_find(int major, int minor, int micro)
{
    if (major != 3 || minor < 4 || minor > 12)
        return NULL;
    if (minor <= 6)
        return &layouts[V34 + minor - 4];
    if (minor == 7)
        return &layouts[micro < 4 ? V37 : V37_4];
    return &layouts[V38 + minor - 8];
}
