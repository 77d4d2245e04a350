#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/home.h"
#include "host/os/own_path.h"
#include "node/serve/serve.h"

/* Without links as far as it exists, so that every way to write it names the same node. */
static int resolve(char *buf, size_t cap, struct pb_err *err)
{
    char *end = buf + strlen(buf), *real = NULL, *here, whole[PATH_MAX];
    int len = -1;

    if (*buf != '/' && (here = getcwd(NULL, 0))) {
        len = snprintf(whole, sizeof whole, "%s/%s", here, buf);
        free(here);
        if (len < (int)sizeof whole && len < (int)cap)
            memcpy(buf, whole, (size_t)len + 1);
        end = buf + strlen(buf);
    }
    if (!pb_own_path(buf))
        return pb_err_set(err, PB_DENIED,
                          "%s: other users could put a folder of theirs there; root keeps history "
                          "where only root can: set PROBING_HOME",
                          buf);
    while (end > buf && end[-1] == '/')
        *--end = '\0';
    while (end > buf && !real) {
        char cut = *end;

        *end = '\0';
        real = realpath(buf, NULL);
        *end = cut;
        if (!real)
            while (end > buf && *--end != '/')
                ;
    }
    len = snprintf(whole, sizeof whole, "%s%s", real ? real : "", end);
    free(real);
    if (len < 0 || (size_t)len >= cap || (size_t)len >= sizeof whole)
        return pb_err_set(err, PB_FAIL, "the path of the data folder is too long");
    memcpy(buf, whole, (size_t)len + 1);
    return 0;
}

int pb_serve_data_dir(char *buf, size_t cap, struct pb_err *err)
{
    const char *own = getenv("PROBING_HOME"), *xdg = getenv("XDG_DATA_HOME"), *home;
    char kept[PATH_MAX];
    int len;

    if (own && *own)
        len = snprintf(buf, cap, "%s", own);
    else if (xdg && *xdg == '/' && pb_own_path(xdg))
        len = snprintf(buf, cap, "%s/probing", xdg);
    else if ((home = pb_own_home(kept, sizeof kept)))
        len = snprintf(buf, cap, "%s/.local/share/probing", home);
    else
        return pb_err_set(err, PB_FAIL, "where to keep history? set HOME or PROBING_HOME");
    if (len < 0 || (size_t)len >= cap)
        return pb_err_set(err, PB_FAIL, "the path of the data folder is too long");
    return resolve(buf, cap, err);
}

int pb_serve_socket_path(char *buf, size_t cap, const char *data_dir, struct pb_err *err)
{
    uint64_t hash = pb_hash_text(pb_hash_text(PB_HASH_SEED, data_dir), PB_VERSION);
    uint32_t name = (uint32_t)(hash ^ hash >> 32);
    char user[PB_HOME_MAX];
    struct stat st;
    int fd;

    for (size_t i = 0; pb_home_roots[i]; i++) {
        if (access(pb_home_roots[i], W_OK | X_OK) < 0)
            continue;
        pb_home_user_path(user, pb_home_roots[i], geteuid());
        /* Taken by somebody else: then the folder that all agree on must be there first. */
        if (lstat(user, &st) == 0 && (st.st_uid != geteuid() || !S_ISDIR(st.st_mode) ||
                                      (st.st_mode & 077))) {
            fd = pb_home_user_create(user, pb_home_roots[i], geteuid());
            if (fd < 0)
                continue;
            close(fd);
        }
        if (snprintf(buf, cap, "%s/" PB_HOME_NODE "%08x", user, (unsigned)name) < (int)cap)
            return 0;
    }
    return pb_err_set(err, PB_FAIL, "no paths for the node's socket: neither /dev/shm nor /tmp "
                                    "can be written to");
}

int pb_serve_paths_find(struct pb_serve_paths *p, struct pb_err *err)
{
    char host[PB_OWN_HOST_MAX];

    if (pb_serve_data_dir(p->data, sizeof p->data, err) < 0 ||
        pb_serve_socket_path(p->socket, sizeof p->socket, p->data, err) < 0)
        return -1;
    pb_own_host(host);
    snprintf(p->lock, sizeof p->lock, "%s/node-%s.lock", p->data, host);
    snprintf(p->log, sizeof p->log, "%s/node.log", p->data);
    return 0;
}
