/* Reading where a process is: from a file that may be wrong in every byte. */
#include "pb_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/format.h"
#include "store/reader_progress.h"

static struct pb_progress_page *page;
static char *bytes; /* all of the file */
static int fd;

static void fill(void)
{
    struct pb_ring_text *name;

    memset(bytes, 0, PB_PROGRESS_SIZE);
    memcpy(page->head.magic, PB_PROGRESS_MAGIC, 8);
    page->head.major = PB_PROGRESS_MAJOR;
    page->head.thread_size = sizeof *page->threads;
    page->head.nthreads = PB_PROGRESS_THREADS;
    page->head.step = 7;
    page->threads[3].tid = 42;
    page->threads[3].phase = PB_PHASE_OPTIMIZER;
    page->threads[3].module = 1;
    name = (void *)(bytes + PB_PROGRESS_NAMES_AT);
    name->hash = 1;
    name->len = 5;
    memcpy(name->bytes, "layer", 5);
}

static void reads(void **state)
{
    struct pb_err err = {0};
    struct pb_progress p;
    char text[16];

    (void)state;
    fill();
    assert_int_equal(pb_progress_read(fd, &p, &err), 0);
    assert_int_equal(p.step, 7);
    assert_int_equal(p.nthreads, 1);
    assert_int_equal(p.threads[0].tid, 42);
    assert_string_equal(pb_progress_phase_name(p.threads[0].phase), "optimizer");
    assert_int_equal(pb_progress_text(fd, p.threads[0].module, text, sizeof text), 5);
    assert_string_equal(text, "layer");
    assert_int_equal(pb_progress_text(fd, 1, text, 3), 2);
    assert_string_equal(text, "la");
}

static void refuses(void **state)
{
    struct pb_err err = {0};
    struct pb_progress p;

    (void)state;
    fill();
    page->head.magic[0]++;
    assert_int_equal(pb_progress_read(fd, &p, &err), -1);
    fill();
    page->head.major++;
    assert_int_equal(pb_progress_read(fd, &p, &err), -1);
    fill();
    page->head.nthreads = 1u << 30;
    assert_int_equal(pb_progress_read(fd, &p, &err), -1);
    fill();
    page->head.thread_size = 8;
    assert_int_equal(pb_progress_read(fd, &p, &err), -1);
}

/* Whatever the bytes are, what comes out is within bounds. */
static void copes_with_anything(void **state)
{
    struct pb_err err = {0};
    struct pb_progress p;
    char text[64];

    (void)state;
    srand(1);
    for (int round = 0; round < 2000; round++) {
        fill();
        for (int i = 0; i < 40; i++)
            bytes[rand() % (round % 2 ? PB_PROGRESS_SIZE : 256)] = (char)rand();
        if (pb_progress_read(fd, &p, &err) < 0)
            continue;
        assert_true(p.nthreads <= PB_PROGRESS_THREADS);
        for (uint32_t i = 0; i < p.nthreads; i++)
            assert_non_null(pb_progress_phase_name(p.threads[i].phase));
        assert_true(pb_progress_text(fd, (uint32_t)rand(), text, sizeof text) < sizeof text);
    }
    assert_int_equal(pb_progress_text(fd, UINT32_MAX, text, sizeof text), 0);
    assert_int_equal(pb_progress_text(fd, 0, text, sizeof text), 0);
}

static void is_a_file_of_its_own(void **state)
{
    char folder[] = "/tmp/probing-unit-XXXXXX", path[64];
    struct pb_err err = {0};
    struct pb_progress p;
    int dir, short_one;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/progress", folder);
    dir = open(folder, O_RDONLY | O_DIRECTORY);
    assert_int_equal(pb_progress_open(dir), -1);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(pb_progress_open(dir), -1);
    unlink(path);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(pb_progress_open(dir), -1);
    unlink(path);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    short_one = pb_progress_open(dir);
    assert_true(short_one >= 0);
    assert_int_equal(pb_progress_read(short_one, &p, &err), -1);
    close(short_one);
    unlink(path);
    close(dir);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),
        cmocka_unit_test(refuses),
        cmocka_unit_test(copes_with_anything),
        cmocka_unit_test(is_a_file_of_its_own),
    };

    fd = memfd_create("progress", 0);
    if (fd < 0 || ftruncate(fd, PB_PROGRESS_SIZE) < 0)
        return 1;
    bytes = mmap(NULL, PB_PROGRESS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    page = (void *)bytes;
    return RUN_TESTS(tests);
}
