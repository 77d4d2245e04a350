#include "cli/client/browser.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE_S 15

static bool is_set(const char *name)
{
    const char *value = getenv(name);

    return value && *value;
}

static const char *program(void)
{
    if (is_set("BROWSER"))
        return getenv("BROWSER");
    return is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") ? "xdg-open" : NULL;
}

/* A page that leads there, in a folder that a browser in a sandbox may read, too. */
static bool write_leader(const char *address, char *path, size_t cap)
{
    const char *home = getenv("HOME");
    FILE *f;
    int fd;

    if (!home || snprintf(path, cap, "%s/probing-XXXXXX.html", home) >= (int)cap)
        return false;
    fd = mkostemps(path, 5, O_CLOEXEC); /* 0600 */
    if (fd < 0)
        return false;
    f = fdopen(fd, "w");
    if (!f) {
        close(fd);
        return false;
    }
    fprintf(f, "<!doctype html><meta charset=\"utf-8\"><title>probing</title>\n"
               "<meta http-equiv=\"refresh\" content=\"0; url=%s\">\n"
               "<a href=\"%s\">the page of probing</a>\n", address, address);
    return fclose(f) == 0;
}

static void exec_quietly(const char *name, const char *argument)
{
    int null = open("/dev/null", O_RDWR);

    setsid();
    for (int fd = 0; fd < 3 && null >= 0; fd++)
        dup2(null, fd);
    execlp(name, name, argument, (char *)NULL);
    _exit(127);
}

/* In a process of its own: runs the browser, and takes the file away when it has been read. */
static void launch(const char *name, const char *path)
{
    pid_t child = fork();

    if (child == 0)
        exec_quietly(name, path);
    sleep(GRACE_S);
    unlink(path);
    _exit(0);
}

bool pb_browser_open(const char *address)
{
    const char *name = program();
    char path[PATH_MAX];
    pid_t child;

    if (!name || !write_leader(address, path, sizeof path))
        return false;
    child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_RDWR);

        setsid();
        for (int fd = 0; fd < 3 && null >= 0; fd++)
            dup2(null, fd); /* whoever reads our output does not wait for this one */
        launch(name, path);
    }
    if (child < 0)
        unlink(path);
    return child > 0;
}
