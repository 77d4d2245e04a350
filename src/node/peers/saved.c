/*
 * <data>/cluster-<host>: what a node needs to find its cluster again after it was started anew. It
 * holds the token when that is not the user's own, so it is as secret as that.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/text/json_write.h"
#include "host/os/own_path.h"
#include "node/access/token_files.h"
#include "node/peers/internal.h"

#define FILE_MAX (64 << 10)
/* Nobody else was seen for so long: what the file says is of a job that is over. */
#define STALE_S 86400

static bool path_of(const struct pb_peers *p, char *buf, size_t cap)
{
    char host[PB_OWN_HOST_MAX];

    pb_own_host(host);
    return p->opts.data_dir &&
           snprintf(buf, cap, "%s/cluster-%s", p->opts.data_dir, host) < (int)cap;
}

/* Another one that lives, and whose address is known. */
static bool is_worth_saving(const struct pb_peers *p, const struct pb_member *it)
{
    return it->state <= PB_MEMBER_SUSPECT && *pb_member_address(it) &&
           strcmp(it->id, p->members.self) != 0;
}

static size_t count_worth(const struct pb_peers *p)
{
    size_t n = 0;

    for (size_t i = 0; i < p->members.n; i++)
        n += is_worth_saving(p, p->members.v[i]);
    return n;
}

/* With the lock held: addresses to begin with next time. */
static void put_seeds(struct pb_buf *b, struct pb_peers *p, bool *ret_others)
{
    size_t n = 0;

    pb_json_key(b, "seeds");
    pb_buf_putc(b, '[');
    *ret_others = false;
    for (size_t i = 0; i < p->members.n && n < PB_PEERS_SEEDS; i++) {
        const struct pb_member *it = p->members.v[i];

        if (!is_worth_saving(p, it))
            continue;
        pb_json_comma(b);
        pb_json_string(b, pb_member_address(it));
        *ret_others |= it->state == PB_MEMBER_ALIVE;
        n++;
    }
    for (size_t i = 0; i < p->nseeds && n < PB_PEERS_SEEDS; i++, n++) {
        pb_json_comma(b);
        pb_json_string(b, p->seeds[i]);
    }
    pb_buf_putc(b, ']');
}

void pb_peers_save(struct pb_peers *p)
{
    char path[PATH_MAX];
    struct pb_buf b = PB_BUF_INIT;
    bool others;

    if (!path_of(p, path, sizeof path))
        return;
    pthread_mutex_lock(&p->lock);
    pb_buf_putc(&b, '{');
    pb_json_key(&b, "name");
    pb_json_string(&b, p->name);
    pb_json_key(&b, "observe");
    pb_json_bool(&b, p->observer);
    pb_json_key(&b, "listen");
    pb_json_string(&b, p->bound);
    if (p->token[0]) {
        pb_json_key(&b, "token");
        pb_json_string(&b, p->token);
    }
    put_seeds(&b, p, &others);
    /* The time stays that of the last file when nobody was there. */
    pb_json_key(&b, "seen");
    pb_json_int(&b, (int64_t)time(NULL));
    pb_buf_puts(&b, "}\n");
    others |= p->saved_ns == 0;
    p->saved_ns = pb_clock_ns();
    p->saved = count_worth(p);
    pthread_mutex_unlock(&p->lock);
    if (others)
        pb_token_write_file(path, b.data, b.len, true, NULL);
    explicit_bzero(b.data, b.len);
    pb_buf_finish(&b);
}

void pb_peers_save_more(struct pb_peers *p)
{
    bool more;

    pthread_mutex_lock(&p->lock);
    more = p->attached && p->saved_ns && p->saved < PB_PEERS_SEEDS &&
           count_worth(p) > p->saved;
    pthread_mutex_unlock(&p->lock);
    if (more)
        pb_peers_save(p);
}

void pb_peers_forget_saved(struct pb_peers *p)
{
    char path[PATH_MAX];

    if (path_of(p, path, sizeof path))
        unlink(path);
}

static bool read_text(const char *path, char *buf, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    ssize_t n = -1;

    if (fd >= 0 && pb_token_check_file(fd, path, NULL) == 0)
        n = read(fd, buf, cap - 1);
    if (fd >= 0)
        close(fd);
    buf[n > 0 ? n : 0] = '\0';
    return n > 0;
}

bool pb_peers_read_saved(struct pb_peers *p, struct pb_peers_attach *ret, struct pb_arena *a)
{
    char path[PATH_MAX], *text = pb_arena_alloc(a, FILE_MAX);
    struct pb_json json;
    const struct pb_json *seeds;
    const char **v;

    *ret = (struct pb_peers_attach){0};
    if (!path_of(p, path, sizeof path) || !read_text(path, text, FILE_MAX) ||
        pb_json_parse(a, text, strlen(text), &json, NULL) < 0 ||
        (int64_t)time(NULL) - pb_json_whole(&json, "seen", 0) > STALE_S)
        return false;
    seeds = pb_json_get(&json, "seeds");
    ret->name = pb_json_str(&json, "name", NULL);
    ret->token = pb_json_str(&json, "token", NULL);
    ret->observe = pb_json_flag(&json, "observe", false);
    ret->address = pb_json_str(&json, "listen", NULL);
    if (ret->address && !*ret->address)
        ret->address = NULL;
    v = PB_NEW_N(a, const char *, PB_PEERS_SEEDS);
    for (size_t i = 0; seeds && seeds->type == PB_J_ARRAY && i < seeds->n && i < PB_PEERS_SEEDS;
         i++)
        if (seeds->items[i].type == PB_J_STRING)
            v[ret->nseeds++] = seeds->items[i].s;
    ret->seeds = v;
    return true;
}
