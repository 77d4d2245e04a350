#include "cli/target/core_unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    const char *magic;
    size_t len;
    const char *program;
} packers[] = {
    {"\x28\xb5\x2f\xfd", 4, "zstd"},
    {"\xfd" "7zXZ", 5, "xz"},
    {"\x1f\x8b", 2, "gzip"},
    {"\x04\x22\x4d\x18", 4, "lz4"},
    {"BZh", 3, "bzip2"},
};

static const char *program_for(int fd)
{
    char head[8];
    ssize_t n = pread(fd, head, sizeof head, 0);

    for (size_t i = 0; i < sizeof packers / sizeof *packers; i++)
        if (n >= (ssize_t)packers[i].len && memcmp(head, packers[i].magic, packers[i].len) == 0)
            return packers[i].program;
    return NULL;
}

/* A file without a name: memory is too small for some core files, and /tmp is often memory. */
static int make_file(struct pb_err *err)
{
    const char *folders[] = {getenv("TMPDIR"), "/var/tmp", "/tmp"};

    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        int fd = folders[i] && folders[i][0]
                     ? open(folders[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)
                     : -1;

        if (fd >= 0)
            return fd;
    }
    return pb_err_set(err, PB_FAIL, "no place to unpack it: set TMPDIR to a folder with room");
}

static int run(const char *program, int from, int to, struct pb_err *err)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);

        if (nothing >= 0)
            dup2(nothing, STDERR_FILENO);
        if (dup2(from, STDIN_FILENO) >= 0 && dup2(to, STDOUT_FILENO) >= 0)
            execlp(program, program, "-d", "-c", (char *)NULL);
        _exit(errno == ENOENT ? 127 : 126);
    }
    if (child < 0)
        return pb_err_set(err, PB_FAIL, "%s: %s", program, strerror(errno));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 127
               ? pb_err_set(err, PB_FAIL,
                            "compressed; the program %s, which unpacks it, is not here", program)
               : pb_err_set(err, PB_FAIL, "%s could not unpack it", program);
}

int pb_core_unpack(const struct pb_ctx *ctx, uid_t *ret_owner, struct pb_err *err)
{
    /* Neither a pipe without a writer nor a device may hold us up. */
    int fd = open(ctx->core, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), whole;
    const char *program;
    struct stat st;

    if (fd < 0)
        return pb_err_set(err, PB_NO_TARGET, "%s", strerror(errno));
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return pb_err_set(err, PB_FAIL, "not a file");
    }
    *ret_owner = st.st_uid;
    program = program_for(fd);
    if (!program)
        return fd;
    if (isatty(STDERR_FILENO))
        pb_ctx_notice(ctx, "probing: unpacking the core file");
    whole = make_file(err);
    if (whole >= 0 && run(program, fd, whole, err) < 0) {
        close(whole);
        whole = -1;
    }
    close(fd);
    return whole;
}
