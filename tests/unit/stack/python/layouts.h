/*
 * layouts.h - for tests: the layouts of versions that do not describe themselves, kept.
 *
 * Owns: one layout for each version asked for. Threads: one. Fails: NULL for an unknown version.
 */
#ifndef PB_TEST_LAYOUTS_H
#define PB_TEST_LAYOUTS_H

#include "cpython/layout.h"

static inline const struct pb_py_layout *kept_layout(int major, int minor, int micro)
{
    static struct pb_py_layout kept[40];
    static int versions[40][2];
    int i = 0;

    while (i < 40 && versions[i][0] && (versions[i][0] != minor || versions[i][1] != micro))
        i++;
    if (i == 40 || !pb_py_layout_find(&kept[i], major, minor, micro))
        return NULL;
    versions[i][0] = minor;
    versions[i][1] = micro;
    return &kept[i];
}

#endif
