/*
 * No room: a tmpfs of 8 MB is filled with rings, and every byte of them is then written. Touching a
 * page that is not there would be a SIGBUS; instead rings get smaller, say so, and at last fail.
 */
#include "store/ring_folder.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { SKIP = 77, RINGS = 64 };

static void put_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);

    if (fd >= 0) {
        (void)!write(fd, text, strlen(text));
        close(fd);
    }
}

/* A mount of our own: as root, or as root of a user namespace. */
static bool mount_small(const char *path)
{
    char users[32], groups[32];

    snprintf(users, sizeof users, "0 %u 1", (unsigned)getuid());
    snprintf(groups, sizeof groups, "0 %u 1", (unsigned)getgid());
    if (unshare(CLONE_NEWNS) < 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
            return false;
        put_file("/proc/self/setgroups", "deny");
        put_file("/proc/self/uid_map", users);
        put_file("/proc/self/gid_map", groups);
    }
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("small", path, "tmpfs", 0, "size=8m,mode=0700") == 0;
}

static void fill(struct pb_ring *r, uint64_t rows)
{
    static const char line[] = "some text that goes into the heap until it has been all round";

    for (uint64_t i = 0; i < rows; i++) {
        char name[32];
        size_t len = (size_t)snprintf(name, sizeof name, "name %d", (int)i);
        union pb_cell cells[C_COUNT] = {
            {.i = (int64_t)i},
            {.i = (int64_t)i},
            {.d = 1},
            {.b = 1},
            {.name = pb_ring_name(r, name, len)},
            {.text = {line, sizeof line - 1}},
        };

        pb_ring_append(r, cells);
    }
}

/* What follows runs in a process of its own. */
static void must(bool condition, int line, const char *text)
{
    if (condition)
        return;
    fprintf(stderr, "line %d: %s\n", line, text);
    _exit(1);
}

#define MUST(condition) must(condition, __LINE__, #condition)

static int fill_small(const char *path)
{
    struct pb_ring_spec spec = all_types;
    struct pb_ring *rings[RINGS];
    char names[RINGS][16];
    size_t n = 0, smaller = 0;
    struct pb_err err = {0};
    uint64_t least = UINT64_MAX;
    struct folder f;

    if (!mount_small(path))
        return SKIP;
    f.fd = open(path, O_RDONLY | O_DIRECTORY);
    spec.rows = 32768; /* about 1.7 MB each */
    for (; n < RINGS; n++) {
        const char *note = NULL;

        snprintf(names[n], sizeof names[n], "test.t%zu", n);
        spec.name = names[n];
        if (pb_ring_create(&rings[n], f.fd, &spec, &note, &err) < 0)
            break;
        smaller += note != NULL;
        MUST((note != NULL) == (pb_ring_bytes(rings[n]) < pb_ring_wants(&spec)));
        MUST(!note || strcmp(note, "less room than wanted: fewer rows are kept") == 0);
        least = pb_ring_bytes(rings[n]) < least ? pb_ring_bytes(rings[n]) : least;
    }
    MUST(n > 4 && n < RINGS && smaller > 0 && least < 32 * 1024);
    MUST(strstr(err.msg, "reserve its space: no room left there"));
    MUST(faccessat(f.fd, ".test.t0.0.ring", F_OK, 0) < 0);
    for (size_t i = 0; i < n; i++)
        fill(rings[i], 40000);
    for (size_t i = 0; i < n; i++)
        pb_ring_close(rings[i]);
    return 0;
}

/* A file larger than the process may make: without a look first this is a deadly SIGXFSZ. */
static int limited(const char *path)
{
    struct rlimit limit = {1 << 20, 1 << 20};
    struct pb_ring_spec spec = all_types;
    struct pb_err err = {0};
    const char *note = NULL;
    struct pb_ring *r;
    int fd = open(path, O_RDONLY | O_DIRECTORY);

    spec.rows = 1 << 20;
    MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    MUST(pb_ring_create(&r, fd, &spec, &note, &err) == 0);
    MUST(note && pb_ring_bytes(r) <= 1 << 20);
    fill(r, 10000);
    pb_ring_close(r);
    limit.rlim_cur = 4096;
    MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    MUST(pb_ring_create(&r, fd, &spec, &note, &err) < 0);
    MUST(strstr(err.msg, "RLIMIT_FSIZE"));
    return 0;
}

static void run(int (*child)(const char *path))
{
    struct folder f = folder_make();
    pid_t pid = fork();
    int status;

    if (pid == 0)
        _exit(child(f.path));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    folder_remove(&f);
    if (WIFSIGNALED(status))
        fail_msg("killed by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) == SKIP)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void full_tmpfs(void **state)
{
    (void)state;
    run(fill_small);
}

static void file_limit(void **state)
{
    (void)state;
    run(limited);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_tmpfs),
        cmocka_unit_test(file_limit),
    };

    return RUN_TESTS(tests);
}
