#include "node/sample/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/text/alloc.h"
#include "node/sample/procfile.h"

#define MOUNTINFO_MAX ((size_t)256 << 10)
/* No group stands deeper than this. */
#define DEPTH_MAX 32
/* Version 1 says "no limit" by a number near the largest. */
#define NO_LIMIT ((uint64_t)1 << 60)

/* Is the word in a list with commas? */
static bool has_word(const char *list, size_t len, const char *word)
{
    size_t n = strlen(word);

    for (size_t at = 0; at < len;) {
        size_t end = at;

        while (end < len && list[end] != ',')
            end++;
        if (end - at == n && memcmp(list + at, word, n) == 0)
            return true;
        at = end + 1;
    }
    return false;
}

static bool copy_word(char *to, size_t cap, const char *from)
{
    size_t len = strcspn(from, " \n");

    if (len >= cap)
        return false;
    memcpy(to, from, len);
    to[len] = '\0';
    return true;
}

/* "36 35 0:33 <root> <mount point> rw … - cgroup <source> rw,memory" */
static bool parse_mount(struct pb_cgroup_mounts *m, const char *line)
{
    size_t len = strcspn(line, "\n");
    const char *dash = memmem(line, len, " - cgroup", 9), *root = line, *at, *options;
    bool found = false;

    if (!dash || !pb_scan_skip(&root, 3))
        return false;
    root++;
    at = root + strcspn(root, " \n");
    if (*at++ != ' ')
        return false;
    options = dash + 3;
    if (!pb_scan_skip(&options, 2))
        return false;
    options++;
    for (int i = 0; i < PB_CGROUP_TREES; i++) {
        static const char *const words[] = {"", "memory", "cpu"};
        bool is = i == PB_CGROUP_V2 ? strncmp(dash + 3, "cgroup2 ", 8) == 0
                                    : strncmp(dash + 3, "cgroup ", 7) == 0 &&
                                          has_word(options, strcspn(options, "\n"), words[i]);

        if (is && !m->tree[i].at[0] && copy_word(m->tree[i].at, PB_CGROUP_PATH, at) &&
            copy_word(m->tree[i].root, PB_CGROUP_PATH, root))
            found = true;
    }
    return found;
}

bool pb_cgroup_mounts_parse(struct pb_cgroup_mounts *m, const char *mountinfo)
{
    const char *line = mountinfo;
    bool found = false;

    memset(m, 0, sizeof *m);
    while (line && *line) {
        found |= parse_mount(m, line);
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return found;
}

bool pb_cgroup_mounts_read(struct pb_cgroup_mounts *m)
{
    char *text = pb_alloc_resize(NULL, MOUNTINFO_MAX);
    bool found = pb_sample_file(text, MOUNTINFO_MAX, "/proc/self/mountinfo") > 0 &&
                 pb_cgroup_mounts_parse(m, text);

    free(text);
    return found;
}

/* The folder of a group, "" when it lies outside of what is mounted here. */
static void group_folder(char ret[2 * PB_CGROUP_PATH], const struct pb_cgroup_mounts *m,
                         enum pb_cgroup_tree tree, const char *group)
{
    const char *root = m->tree[tree].root;
    size_t len = strcmp(root, "/") == 0 ? 0 : strlen(root);

    ret[0] = '\0';
    if (!m->tree[tree].at[0] || strncmp(group, "/..", 3) == 0)
        return;
    if (strncmp(group, root, len) == 0 && (group[len] == '/' || !group[len]))
        group += len;
    else
        return;
    snprintf(ret, 2 * PB_CGROUP_PATH, "%s%s", m->tree[tree].at,
             strcmp(group, "/") == 0 ? "" : group);
}

/* "4:memory:/a/b" or, version 2, "0::/a/b". */
static void parse_line(struct pb_cgroup *g, const struct pb_cgroup_mounts *m, const char *line)
{
    const char *list = memchr(line, ':', strcspn(line, "\n")), *path;
    char group[PB_CGROUP_PATH];
    size_t len;

    path = list ? memchr(list + 1, ':', strcspn(list + 1, "\n")) : NULL;
    if (!path || strcspn(path + 1, "\n") >= sizeof group)
        return;
    len = (size_t)(path - list - 1);
    memcpy(group, path + 1, strcspn(path + 1, "\n"));
    group[strcspn(path + 1, "\n")] = '\0';
    if (has_word(list + 1, len, "memory")) {
        group_folder(g->memory, m, PB_CGROUP_MEMORY, group);
        snprintf(g->name, sizeof g->name, "%s", group);
    }
    if (has_word(list + 1, len, "cpu"))
        group_folder(g->cpu, m, PB_CGROUP_CPU, group);
    if (len)
        return;
    /* Where both versions are mounted, version 1 has the controllers. */
    if (!m->tree[PB_CGROUP_MEMORY].at[0]) {
        group_folder(g->memory, m, PB_CGROUP_V2, group);
        g->memory_v2 = true;
        snprintf(g->name, sizeof g->name, "%s", group);
    }
    if (!m->tree[PB_CGROUP_CPU].at[0]) {
        group_folder(g->cpu, m, PB_CGROUP_V2, group);
        g->cpu_v2 = true;
    }
}

bool pb_cgroup_parse(struct pb_cgroup *g, const struct pb_cgroup_mounts *m, const char *text)
{
    const char *line = text;

    *g = (struct pb_cgroup){.memory_max = UINT64_MAX};
    while (line && *line) {
        parse_line(g, m, line);
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return g->memory[0] || g->cpu[0];
}

static void limit_memory(struct pb_cgroup *g, const char *folder)
{
    uint64_t v;

    if (pb_sample_number(&v, "%s/%s", folder,
                         g->memory_v2 ? "memory.max" : "memory.limit_in_bytes") &&
        v < NO_LIMIT && v < g->memory_max)
        g->memory_max = v;
}

static void limit_cpu(struct pb_cgroup *g, const char *folder)
{
    uint64_t quota, period;
    char text[64];
    const char *at = text;
    double cores;

    if (g->cpu_v2) {
        if (pb_sample_file(text, sizeof text, "%s/cpu.max", folder) <= 0 ||
            !pb_scan_u64(&at, &quota) || !pb_scan_u64(&at, &period))
            return;
    } else if (!pb_sample_number(&quota, "%s/cpu.cfs_quota_us", folder) ||
               !pb_sample_number(&period, "%s/cpu.cfs_period_us", folder)) {
        return;
    }
    cores = period ? (double)quota / (double)period : 0;
    if (cores > 0 && (g->cpu_limit <= 0 || cores < g->cpu_limit))
        g->cpu_limit = cores;
}

/* From the group up to the mount point: the tightest limit counts. */
static void find_limits(struct pb_cgroup *g, const char *folder, const char *top,
                        void (*limit)(struct pb_cgroup *g, const char *folder))
{
    char path[2 * PB_CGROUP_PATH];

    snprintf(path, sizeof path, "%s", folder);
    for (int i = 0; i < DEPTH_MAX && strlen(path) >= strlen(top); i++) {
        limit(g, path);
        *strrchr(path, '/') = '\0';
    }
}

bool pb_cgroup_of(struct pb_cgroup *g, const struct pb_cgroup_mounts *m, pid_t pid)
{
    char text[4096];

    if (pb_sample_file(text, sizeof text, "/proc/%d/cgroup", (int)pid) <= 0 ||
        !pb_cgroup_parse(g, m, text))
        return false;
    if (g->memory[0])
        find_limits(g, g->memory, m->tree[g->memory_v2 ? PB_CGROUP_V2 : PB_CGROUP_MEMORY].at,
                    limit_memory);
    if (g->cpu[0])
        find_limits(g, g->cpu, m->tree[g->cpu_v2 ? PB_CGROUP_V2 : PB_CGROUP_CPU].at, limit_cpu);
    return true;
}

void pb_cgroup_read(struct pb_cgroup_now *now, const struct pb_cgroup *g)
{
    char text[2048];
    uint64_t ns;

    *now = (struct pb_cgroup_now){0};
    if (g->memory[0]) {
        now->has_memory = pb_sample_number(&now->memory, "%s/%s", g->memory,
                                           g->memory_v2 ? "memory.current"
                                                        : "memory.usage_in_bytes");
        now->has_oom_kills =
            pb_sample_file(text, sizeof text, "%s/%s", g->memory,
                           g->memory_v2 ? "memory.events" : "memory.oom_control") > 0 &&
            pb_scan_key(text, "oom_kill", &now->oom_kills);
    }
    if (!g->cpu[0] || pb_sample_file(text, sizeof text, "%s/cpu.stat", g->cpu) <= 0 ||
        !pb_scan_key(text, "nr_throttled", &now->periods))
        return;
    if (pb_scan_key(text, "throttled_usec", &now->throttled_us)) {
        now->has_throttled = true;
    } else if (pb_scan_key(text, "throttled_time", &ns)) {
        now->throttled_us = ns / 1000;
        now->has_throttled = true;
    }
}
