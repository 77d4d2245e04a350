#include "cli/settings/yaml_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "host/text/nearest.h"
#include "cli/settings/yaml.h"
#include "host/text/buf.h"

/* At most one byte more than allowed, so that the parser can complain about the rest. */
static int read_file(const char *path, struct pb_buf *b, struct pb_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    char piece[4096];
    ssize_t n = 0;

    if (fd < 0)
        return pb_err_set(err, PB_USAGE, "%s: %s", path, strerror(errno));
    while (b->len <= PB_YAML_MAX && (n = read(fd, piece, sizeof piece)) > 0)
        pb_buf_add(b, piece, (size_t)n);
    if (n < 0)
        pb_err_set(err, PB_USAGE, "%s: %s", path, strerror(errno));
    close(fd);
    return n < 0 ? -1 : 0;
}

static int unknown(const struct pb_yaml_pair *p, struct pb_err *err)
{
    static const char prefix[] = "probing.";
    const char *bare =
        strncmp(p->key, prefix, sizeof prefix - 1) ? p->key : p->key + sizeof prefix - 1;
    const char *near = pb_nearest_setting(bare);

    if (near)
        return pb_err_set(err, PB_USAGE, "line %d: no setting '%.80s'. Did you mean '%s'?", p->line,
                          bare, near);
    return pb_err_set(err, PB_USAGE, "line %d: no setting '%.80s'. See: probing config", p->line,
                      bare);
}

static int apply_pair(struct pb_yaml_settings *s, const struct pb_yaml_pair *p, struct pb_err *err)
{
    int index = pb_settings_find(p->key, strlen(p->key));

    if (strncmp(p->key, "x-", 2) == 0) /* by convention: only there to be referred to */
        return 0;
    if (index < 0)
        return unknown(p, err);
    if (s->given[index])
        return pb_err_set(err, PB_USAGE, "line %d: '%s' is set twice", p->line,
                          pb_setting_list[index].name);
    if (pb_settings_set(&s->settings, index, p->value, strlen(p->value), err) < 0)
        return pb_err_prefix(err, "line %d", p->line);
    s->given[index] = true;
    return 0;
}

int pb_yaml_settings_read(struct pb_yaml_settings *ret, const char *path, struct pb_arena *a,
                          struct pb_err *err)
{
    struct pb_yaml_settings s = {.given = {false}};
    struct pb_buf text = PB_BUF_INIT;
    struct pb_yaml yaml;
    int rc = -1;

    if (read_file(path, &text, err) < 0)
        goto out;
    pb_settings_init(&s.settings);
    rc = pb_yaml_parse(&yaml, a, text.len ? text.data : "", text.len, err);
    for (size_t i = 0; rc == 0 && i < yaml.n; i++)
        rc = apply_pair(&s, &yaml.v[i], err);
    if (rc < 0)
        pb_err_prefix(err, "%s", path);
    else
        *ret = s;
out:
    pb_buf_finish(&text);
    return rc;
}

const char *pb_yaml_settings_lines(const struct pb_yaml_settings *s, struct pb_arena *a)
{
    const char *lines = "";

    for (int i = 0; i < PB_SETTING_COUNT; i++) {
        char value[PB_SETTING_VALUE_MAX];

        if (!s->given[i])
            continue;
        pb_settings_show(&s->settings, i, value);
        lines = pb_arena_printf(a, "%s%s=%s\n", lines, pb_setting_list[i].name, value);
    }
    return lines;
}
