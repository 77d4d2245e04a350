/* The address space as data, and only the file that is really mapped. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/process/maps.h"
#include "pb_test.h"

static void parses_every_kind_of_line(void **state)
{
    static const char text[] =
        "400000-401000 r-xp 00001000 fd:01 1234                           /usr/bin/a b\n"
        "500000-501000 rw-p 00000000 00:00 0 \n"
        "600000-601000 r--s 00002000 08:10 99                             /tmp/x\\012y (deleted)\n"
        "garbage\n"
        "7ffd0000-7ffd1000 rw-p 00000000 00:00 0                          [stack]\n";
    struct pb_maps maps;

    (void)state;
    assert_int_equal(pb_maps_parse(&maps, strdup(text), strlen(text), NULL), 0);
    assert_int_equal(maps.n, 4);
    assert_string_equal(maps.v[0].path, "/usr/bin/a b");
    assert_true(maps.v[0].exec && maps.v[0].read && !maps.v[0].write && !maps.v[0].shared);
    assert_int_equal(maps.v[0].offset, 0x1000);
    assert_int_equal(maps.v[0].dev_major, 0xfd);
    assert_int_equal(maps.v[0].inode, 1234);
    assert_string_equal(maps.v[1].path, "");
    assert_string_equal(maps.v[2].path, "/tmp/x\ny");
    assert_true(maps.v[2].deleted && maps.v[2].shared);
    assert_string_equal(maps.v[3].path, "[stack]");
    assert_null(pb_maps_find(&maps, 0x3fffff));
    assert_ptr_equal(pb_maps_find(&maps, 0x400000), &maps.v[0]);
    assert_ptr_equal(pb_maps_find(&maps, 0x400fff), &maps.v[0]);
    assert_null(pb_maps_find(&maps, 0x401000));
    assert_ptr_equal(pb_maps_find(&maps, 0x7ffd0800), &maps.v[3]);
    pb_maps_finish(&maps);
}

static void reads_its_own_address_space(void **state)
{
    struct pb_maps maps;
    int on_stack;
    const struct pb_map *m;

    (void)state;
    assert_int_equal(pb_maps_read(&maps, getpid(), NULL), 0);
    m = pb_maps_find(&maps, (uintptr_t)&on_stack);
    assert_non_null(m);
    assert_true(m->write && !m->exec);
    m = pb_maps_find(&maps, (uintptr_t)reads_its_own_address_space);
    assert_non_null(m);
    assert_true(m->exec);
    pb_maps_finish(&maps);
}

static void says_when_a_process_is_gone(void **state)
{
    struct pb_err err = {0};
    struct pb_maps maps;

    (void)state;
    assert_int_equal(pb_maps_read(&maps, 0x7ffffff0, &err), -1);
    assert_int_equal(err.code, PB_NO_TARGET);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* Opens the file behind addr; returns its first byte, or 0 when it is refused. */
static char first_byte(void *addr, char *why, size_t cap)
{
    struct pb_err err = {0};
    struct pb_maps maps;
    const struct pb_map *m;
    char c = 0;
    int fd;

    assert_int_equal(pb_maps_read(&maps, getpid(), NULL), 0);
    m = pb_maps_find(&maps, (uintptr_t)addr);
    assert_non_null(m);
    fd = pb_maps_open_file(getpid(), m, &err);
    snprintf(why, cap, "%s", err.msg);
    if (fd >= 0) {
        assert_int_equal(read(fd, &c, 1), 1);
        close(fd);
    }
    pb_maps_finish(&maps);
    return c;
}

static void never_opens_a_file_put_in_its_place(void **state)
{
    char path[] = "/tmp/probing-maps-XXXXXX", other[64], why[480], c;
    int fd = mkstemp(path);
    void *p;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "old", 3), 3);
    p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(p != MAP_FAILED);
    close(fd);
    assert_int_equal(first_byte(p, why, sizeof why), 'o');
    snprintf(other, sizeof other, "%s.new", path);
    write_file(other, "new");
    assert_int_equal(rename(other, path), 0);
    /* Root may still open the old file; nobody may be given the new one. */
    c = first_byte(p, why, sizeof why);
    assert_true(c == 'o' || (c == 0 && strstr(why, "deleted")));
    munmap(p, 4096);
    unlink(path);
}

static void anonymous_memory_has_no_file(void **state)
{
    struct pb_map anon = {.path = ""}, vdso = {.path = "[vdso]"};
    struct pb_err err = {0};

    (void)state;
    assert_int_equal(pb_maps_open_file(getpid(), &anon, NULL), -1);
    assert_int_equal(pb_maps_open_file(getpid(), &vdso, &err), -1);
    assert_string_equal(err.msg, "[vdso]: no file behind this memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_every_kind_of_line),
        cmocka_unit_test(reads_its_own_address_space),
        cmocka_unit_test(says_when_a_process_is_gone),
        cmocka_unit_test(never_opens_a_file_put_in_its_place),
        cmocka_unit_test(anonymous_memory_has_no_file),
    };

    return RUN_TESTS(tests);
}
