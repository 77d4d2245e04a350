/*
 * agent_test.h - the agent's state in a test: made, with a folder for its rings, not running.
 *
 * Each test that includes it links the whole agent (test_linked_*.c).
 */
#ifndef AGENT_TEST_H
#define AGENT_TEST_H

#include "pb_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/collectors/collect.h"
#include "agent/torch/backward/grad.h"
#include "agent/torch/torch.h"
#include "agent/lifecycle.h"
#include "store/reader.h"

enum { AGENT_COLLECTORS_MAX = 64 };

static char agent_folder[64];
static void *agent_memory[AGENT_COLLECTORS_MAX]; /* what this test has given to collectors */

/* State of the agent and of its collectors, settings at their defaults, rings in a new folder. */
static inline struct pb_self *agent_begin(void)
{
    struct pb_self *self = pb_lifecycle_self();

    if (!self)
        self = pb_self(); /* without Python there is a state, too */
    assert_non_null(self);
    strcpy(agent_folder, "/tmp/probing-unit-XXXXXX");
    assert_non_null(mkdtemp(agent_folder));
    snprintf(self->collect->home, sizeof self->collect->home, "%s", agent_folder);
    pb_settings_init(&self->settings);
    self->collect->budget = 64 << 20;
    self->collect->rank = -1;
    self->collect->on = true;
    assert_true(pb_progress_prepare(self));
    for (int i = 0; pb_collectors[i]; i++) {
        struct pb_collector_run *run = &self->collect->runs[i];
        size_t size = pb_collectors[i]->state_size;

        if (!run->memory && size) {
            run->memory = aligned_alloc(4096, (size + 4095) & ~(size_t)4095);
            assert_non_null(run->memory);
            assert_true(i < AGENT_COLLECTORS_MAX);
            agent_memory[i] = run->memory;
        }
        if (size)
            memset(run->memory, 0, size);
    }
    return self;
}

static inline void agent_end(struct pb_self *self)
{
    DIR *dir = opendir(agent_folder);
    struct dirent *e;

    self->collect->on = false;
    for (size_t i = 0; i < self->collect->nrings; i++)
        pb_ring_close(self->collect->rings[i].ring);
    self->collect->nrings = 0;
    pb_progress_retire(self, false);
    while (dir && (e = readdir(dir)))
        unlinkat(dirfd(dir), e->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(agent_folder);
    for (int i = 0; i < AGENT_COLLECTORS_MAX; i++) {
        if (agent_memory[i])
            self->collect->runs[i].memory = NULL;
        free(agent_memory[i]);
        agent_memory[i] = NULL;
    }
}

static inline struct pb_torch *torch_begin(struct pb_self *self)
{
    struct pb_torch *t = pb_torch_state(self);

    t->self = self;
    t->on = true;
    assert_true(pb_torch_trace_enter(t));
    pb_torch_calls_enter(t);
    pb_torch_steps_enter(t);
    return t;
}

enum { ROWS_MAX = 8192 };

/* One column of a table, of all its rows; returns how many there are. */
static inline size_t read_column(const char *table, const char *column, void *cells, size_t width)
{
    struct pb_reader r = {0};
    struct pb_err err = {0};
    static uint64_t rows[ROWS_MAX];
    char file[128];
    uint64_t first, next;
    size_t at = 0, n;
    int dir = open(agent_folder, O_RDONLY | O_DIRECTORY);

    snprintf(file, sizeof file, "%s.0.ring", table);
    if (pb_reader_open(&r, dir, file, &err) < 0) {
        close(dir);
        return 0;
    }
    close(dir);
    while (at < r.ncolumns && strcmp(r.columns[at].name, column) != 0)
        at++;
    assert_true(at < r.ncolumns);
    pb_reader_range(&r, &first, &next);
    assert_true(next - first <= ROWS_MAX);
    memset(cells, 0, ROWS_MAX * width);
    n = pb_reader_copy(&r, first, next - first, &at, 1, &cells, rows, NULL);
    pb_reader_close(&r);
    return n;
}

static inline size_t read_ints(const char *table, const char *column, int64_t cells[ROWS_MAX])
{
    return read_column(table, column, cells, sizeof *cells);
}

static inline size_t read_reals(const char *table, const char *column, double cells[ROWS_MAX])
{
    return read_column(table, column, cells, sizeof *cells);
}

/* Texts of a NAME column, "" for NULL. */
static inline size_t read_names(const char *table, const char *column, char cells[][64],
                                size_t max)
{
    static uint32_t names[ROWS_MAX];
    struct pb_reader r = {0};
    struct pb_err err = {0};
    size_t n = read_column(table, column, names, sizeof *names);
    char file[128];
    int dir = open(agent_folder, O_RDONLY | O_DIRECTORY);

    snprintf(file, sizeof file, "%s.0.ring", table);
    if (n == 0 || pb_reader_open(&r, dir, file, &err) < 0)
        n = 0;
    close(dir);
    for (size_t i = 0; i < n && i < max; i++) {
        long len = pb_reader_name(&r, names[i], cells[i], 63);

        cells[i][len > 0 ? len : 0] = '\0';
    }
    pb_reader_close(&r);
    return n;
}

#endif
