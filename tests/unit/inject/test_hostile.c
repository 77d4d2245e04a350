/*
 * A target that means harm: what it puts in the place of its file in memory is not written to,
 * and its links do not lead out of its own folders.
 */
#include "inject/target.h"

#include <dirent.h>
#include <errno.h>
#include <sys/syscall.h>

#include "inject/script.h"

enum { UID = 64123, FD = 77 };

typedef int way(pid_t pid, int fd, uid_t owner);
static way *const ways[] = {pb_handover_pidfd, pb_handover_reopen};

static int memory_file(void)
{
    return (int)syscall(SYS_memfd_create, "libprobing.so", 1u);
}

static void sleep_on(void *arg)
{
    uid_t uid = (uid_t)(uintptr_t)arg;

    if (uid && setuid(uid) < 0)
        _exit(1);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_DUMPABLE, 1);
    for (;;)
        pause();
}

/* What both ways say of `fd` in a process of this user. */
static void expect(int fd, uid_t uid, bool accepted)
{
    pid_t pid;

    assert_true(dup2(fd, FD) == FD);
    pid = target_begin(sleep_on, (void *)(uintptr_t)uid);
    target_until_asleep(pid);
    close(FD);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        int got = ways[i](pid, FD, uid ? uid : geteuid());

        if (got == -ENOSYS)
            continue;
        if (accepted)
            assert_true(got >= 0 && pwrite(got, "x", 1, 0) == 1 && ftruncate(got, 0) == 0);
        else
            assert_int_equal(got, -EBADF);
        if (got >= 0)
            close(got);
    }
    target_end(pid);
    close(fd);
}

static void a_fresh_file_in_memory(void **state)
{
    (void)state;
    expect(memory_file(), 0, true);
}

static void one_with_something_in_it(void **state)
{
    int fd = memory_file();

    (void)state;
    assert_int_equal(write(fd, "x", 1), 1);
    expect(fd, 0, false);
}

static void files_that_are_not_memory(void **state)
{
    char path[] = "/tmp/probing-test-XXXXXX";
    int fd = mkstemp(path), ends[2];

    (void)state;
    assert_true(fd >= 0);
    expect(open(path, O_PATH | O_CLOEXEC), 0, false);
    unlink(path); /* without a name, too */
    expect(fd, 0, false);
    assert_int_equal(pipe(ends), 0);
    expect(ends[1], 0, false);
    close(ends[0]);
}

static void the_file_of_another_user(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    expect(memory_file(), UID, false); /* root made it */
}

static size_t files_in(const char *path)
{
    DIR *dir = opendir(path);
    size_t n = 0;

    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

struct jail {
    char root[32], outside[48];
    bool links;
};

/* A root folder of its own whose dev/shm, tmp and var/tmp are links to a folder of the machine. */
static void live_in_jail(void *arg)
{
    static const char *const folders[] = {"/dev", "/var", "/dev/shm", "/tmp", "/var/tmp"};
    const struct jail *j = arg;
    char path[128];

    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s%s", j->root, folders[i]);
        if (i >= 2 && j->links ? symlink(j->outside, path) : mkdir(path, 0777) || chmod(path, 0777))
            _exit(2);
    }
    if (chroot(j->root) < 0 || chdir("/") < 0)
        _exit(3);
    sleep_on((void *)(uintptr_t)UID);
}

static void make_script(struct jail *j)
{
    struct pb_inject_opts o = {.library = "x", .library_size = 1, .entry = "e", .options = ""};
    struct pb_injection in = {.o = &o};
    struct pb_err err = {0};
    struct pb_script s;
    char command[160];
    struct stat st;
    size_t before;

    strcpy(j->root, "/tmp/probing-jail-XXXXXX");
    assert_non_null(mkdtemp(j->root));
    snprintf(j->outside, sizeof j->outside, "%s/outside", j->root);
    assert_int_equal(mkdir(j->outside, 0700), 0);
    before = files_in(j->outside);
    in.pid = target_begin(live_in_jail, j);
    target_until_asleep(in.pid);
    if (j->links) {
        assert_int_equal(pb_script_create(&s, &in, 512, &err), -1);
    } else {
        assert_int_equal(pb_script_create(&s, &in, 512, &err), 0);
        assert_int_equal(fstat(s.fd, &st), 0);
        assert_int_equal(st.st_uid, UID);
        assert_int_equal(st.st_mode & 0777, 0600);
        pb_script_destroy(&s);
        snprintf(command, sizeof command, "%s/dev/shm", j->root);
        assert_int_equal(files_in(command), 2);
    }
    assert_int_equal(files_in(j->outside), before);
    assert_int_equal(geteuid(), 0);
    target_end(in.pid);
    snprintf(command, sizeof command, "rm -rf %s", j->root);
    assert_int_equal(system(command), 0);
}

static void a_link_out_of_its_root(void **state)
{
    struct jail j = {.links = true};

    (void)state;
    if (geteuid() != 0)
        skip();
    make_script(&j);
}

static void a_root_of_its_own(void **state)
{
    struct jail j = {.links = false};

    (void)state;
    if (geteuid() != 0)
        skip();
    make_script(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fresh_file_in_memory),
        cmocka_unit_test(one_with_something_in_it),
        cmocka_unit_test(files_that_are_not_memory),
        cmocka_unit_test(the_file_of_another_user),
        cmocka_unit_test(a_link_out_of_its_root),
        cmocka_unit_test(a_root_of_its_own),
    };

    return RUN_TESTS(tests);
}
