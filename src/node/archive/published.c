#include "node/archive/published.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/text/alloc.h"

void pb_published_path(char *buf, const char *data_dir, const char *host, const char *table)
{
    snprintf(buf, PB_LAKE_PATH_MAX, "%s/published/%s/%s", data_dir, host, table);
}

struct pb_published_series *pb_published_find(struct pb_published *p, const char *process,
                                              uint64_t ring)
{
    struct pb_published_series *s;

    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].ring == ring && strcmp(p->v[i].process, process) == 0)
            return &p->v[i];
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 16;
        p->v = pb_alloc_resize(p->v, p->cap * sizeof *p->v);
    }
    s = &p->v[p->n++];
    *s = (struct pb_published_series){.ring = ring};
    snprintf(s->process, sizeof s->process, "%s", process);
    return s;
}

/* "<process> <ring> <next> <end>" */
static void load_series(struct pb_published *p, const char *text)
{
    size_t n = strcspn(text, " ");
    char process[PB_PROCESS_ID_MAX];
    unsigned long long v[3];
    struct pb_published_series *s;

    if (n >= sizeof process || sscanf(text + n, "%llu %llu %llu", &v[0], &v[1], &v[2]) != 3)
        return;
    memcpy(process, text, n);
    process[n] = '\0';
    s = pb_published_find(p, process, v[0]);
    s->next = v[1];
    s->end = v[2];
}

static void load_line(struct pb_published *p, const char *line, const char *lake, bool *same)
{
    if (strncmp(line, "lake ", 5) == 0)
        *same = strcmp(line + 5, lake) == 0;
    else if (*same && strncmp(line, "batch ", 6) == 0)
        snprintf(p->batch, sizeof p->batch, "%.*s", (int)sizeof p->batch - 1, line + 6);
    else if (*same && strncmp(line, "series ", 7) == 0)
        load_series(p, line + 7);
}

void pb_published_load(struct pb_published *p, const char *path, const char *lake)
{
    char line[PB_LAKE_PATH_MAX];
    FILE *f = fopen(path, "re");
    bool same = false;

    *p = (struct pb_published){0};
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        load_line(p, line, lake, &same);
    }
    if (f)
        fclose(f);
}

int pb_published_save(const struct pb_published *p, const char *path, const char *lake,
                      struct pb_err *err)
{
    char temp[PB_LAKE_PATH_MAX + 8], folder[PB_LAKE_PATH_MAX];
    FILE *f;
    int bad;

    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    if (pb_lake_make(folder, 0700, err) < 0)
        return -1;
    snprintf(temp, sizeof temp, "%s.new", path);
    f = fopen(temp, "we");
    if (!f)
        return pb_err_set(err, PB_FAIL, "%s: %s", temp, strerror(errno));
    fprintf(f, "lake %s\n", lake);
    if (p->batch[0])
        fprintf(f, "batch %s\n", p->batch);
    for (size_t i = 0; i < p->n; i++)
        fprintf(f, "series %s %llu %llu %llu\n", p->v[i].process,
                (unsigned long long)p->v[i].ring, (unsigned long long)p->v[i].next,
                (unsigned long long)p->v[i].end);
    bad = fflush(f) != 0 || fsync(fileno(f)) < 0;
    bad |= fclose(f) != 0;
    if (bad || rename(temp, path) < 0) {
        pb_err_set(err, PB_FAIL, "%s: %s", path, strerror(errno));
        unlink(temp);
        return -1;
    }
    return pb_fleet_sync(folder, err);
}

void pb_published_finish(struct pb_published *p)
{
    free(p->v);
    *p = (struct pb_published){0};
}

void pb_published_settle(struct pb_published *p, bool there)
{
    for (size_t i = 0; i < p->n; i++) {
        if (there)
            p->v[i].next = p->v[i].end;
        p->v[i].end = p->v[i].next;
    }
    p->batch[0] = '\0';
}
