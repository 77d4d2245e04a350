#include "host/python/version.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* "libpython3.11.so.1.0", "python3.11", "libpython3.6m.so": the minor version, or -1. */
static int minor_from_name(const char *path, int major)
{
    const char *base = strrchr(path, '/');
    const char *p = strstr(base ? base + 1 : path, major == 2 ? "python2." : "python3.");
    int minor;

    if (!p || sscanf(p + 8, "%d", &minor) != 1 || minor < 0 || minor > 99)
        return -1;
    return minor;
}

/* Python 2 has a type that Python 3 does not have. */
static int major_of(const struct pb_elf *elf)
{
    struct pb_elf_sym sym;

    return pb_elf_find_export(elf, "PyString_FromString", &sym) ? 2 : 3;
}

static bool version_from_symbol(const struct pb_elf *elf, struct pb_py_version *ret)
{
    struct pb_elf_sym sym;
    struct pb_elf_range at;
    uint32_t hex;

    if (!pb_elf_find_symbol(elf, "Py_Version", &sym) || !pb_elf_at(elf, sym.vaddr, &at) ||
        at.size < sizeof hex)
        return false;
    memcpy(&hex, at.data, sizeof hex);
    if (hex >> 24 != 3)
        return false;
    *ret = (struct pb_py_version){3, (int)(hex >> 16 & 0xff), (int)(hex >> 8 & 0xff)};
    return true;
}

/* Parses "MAJOR.MINOR.MICRO" followed by NUL, '+', 'a', 'b' or 'rc'; false when it is not that. */
static bool parse_version(const char *p, const char *end, int *minor, int *micro)
{
    int v[2] = {0, 0};

    p += 2; /* "3.", "2." */
    for (int i = 0; i < 2; i++) {
        int digits = 0;

        for (; p < end && isdigit((unsigned char)*p) && digits < 3; p++, digits++)
            v[i] = v[i] * 10 + (*p - '0');
        if (!digits || p >= end)
            return false;
        if (i == 0 && *p++ != '.')
            return false;
    }
    if (*p != '\0' && *p != '+' && *p != 'a' && *p != 'b' && *p != 'r')
        return false;
    *minor = v[0];
    *micro = v[1];
    return true;
}

/*
 * PY_VERSION stands as a C string among the constants, perhaps as the tail of a
 * longer one such as a path. Other strings may look like a version, so the minor
 * version known from the file's name decides; without one the string must be
 * the only plausible one.
 */
static bool version_from_strings(const struct pb_elf *elf, int major, int want_minor,
                                 struct pb_py_version *ret)
{
    const char *start = major == 2 ? "2." : "3.";
    int oldest = major == 2 ? 7 : 4;
    struct pb_elf_range ro;
    const char *p, *end;
    int found = 0;

    if (!pb_elf_section(elf, ".rodata", &ro))
        ro = (struct pb_elf_range){elf->data, elf->size, 0};
    p = (const char *)ro.data + 1;
    end = (const char *)ro.data + ro.size;
    while (p < end && (p = memmem(p, (size_t)(end - p), start, 2))) {
        int minor, micro;

        if (!isalnum((unsigned char)p[-1]) && p[-1] != '.' &&
            parse_version(p, end, &minor, &micro) && minor >= oldest && minor < 40 &&
            (want_minor < 0 || minor == want_minor)) {
            if (found && (ret->minor != minor || ret->micro != micro) && want_minor < 0)
                return false;
            if (!found)
                *ret = (struct pb_py_version){major, minor, micro};
            found++;
        }
        p += 2;
    }
    return found > 0;
}

struct pb_py_version pb_py_version_of(const struct pb_elf *elf, const char *path)
{
    struct pb_py_version v = {major_of(elf), -1, -1};
    int minor = minor_from_name(path, v.major);

    if (version_from_symbol(elf, &v) || version_from_strings(elf, v.major, minor, &v))
        return v;
    v.minor = minor;
    return v;
}
