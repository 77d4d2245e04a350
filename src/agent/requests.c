#include "agent/requests.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/collectors/audit.h"
#include "agent/core/gil_tasks.h"
#include "agent/jobs.h"
#include "agent/lifecycle.h"
#include "agent/outbox.h"
#include "base/clock.h"

#define LEAVE_MS 500

static const char *state_name(struct pb_self *self)
{
    if (self->finalizing)
        return "ending";
    return self->py.Py_IsInitialized() ? "ready" : "no interpreter";
}

static size_t describe(struct pb_self *self, char *buf, size_t cap)
{
    int n = snprintf(buf, cap,
                     "agent=%s\nwire=%d\npid=%d\npython=%s\nstate=%s\ntimeout_ms=%lld\n",
                     PB_VERSION, PB_WIRE_VERSION, (int)self->pid, self->py.version,
                     state_name(self), (long long)pb_self_setting(self, PB_SET_EVAL_TIMEOUT));

    return n < 0 ? 0 : (size_t)n < cap ? (size_t)n : cap - 1;
}

static void put(struct pb_self *self, struct pb_client *c, enum pb_wire_type type, uint32_t id,
                const char *text, size_t len)
{
    pthread_mutex_lock(&self->lock);
    if (!pb_outbox_put(&c->out, type, id, text, len, NULL, 0, 0))
        c->gone = true;
    pthread_mutex_unlock(&self->lock);
}

void pb_requests_hello(struct pb_self *self, struct pb_client *c)
{
    char text[512];

    put(self, c, PB_WIRE_HELLO, 0, text, describe(self, text, sizeof text));
}

static void handle_status(struct pb_self *self, struct pb_client *c)
{
    char text[1024];
    size_t n = describe(self, text, sizeof text);
    int clients = 0, more;

    for (int i = 0; i < PB_CLIENTS; i++)
        clients += self->server->clients[i].fd >= 0;
    more = snprintf(text + n, sizeof text - n,
                    "home=%s\nclients=%d\nevaluations=%d\nserved=%llu\nuptime_ms=%llu\n%s%s%s",
                    self->home, clients, pb_jobs_count(self),
                    (unsigned long long)self->server->served,
                    (unsigned long long)((pb_clock_ns() - self->started_ns) / 1000000),
                    self->env_note[0] ? "ignored=" : "", self->env_note,
                    self->env_note[0] ? "\n" : "");
    n += more > 0 ? (size_t)more : 0;
    put(self, c, PB_WIRE_OUT, c->in.head.id, text, n < sizeof text ? n : sizeof text - 1);
    pb_jobs_answer(self, c, c->in.head.id, PB_WIRE_OK, "");
}

static void show_setting(struct pb_self *self, struct pb_client *c, int index)
{
    char line[PB_SETTING_NAME_MAX + PB_SETTING_VALUE_MAX + 4], value[PB_SETTING_VALUE_MAX];
    int n;

    pb_settings_show(&self->settings, index, value);
    n = snprintf(line, sizeof line, "%s=%s\n", pb_setting_list[index].name, value);
    put(self, c, PB_WIRE_OUT, c->in.head.id, line, (size_t)n);
}

/* One line of CONFIG: key=value sets, in a copy; key alone is shown later. */
static int config_line(struct pb_settings *copy, const char *line, size_t len,
                       struct pb_err *err)
{
    if (memchr(line, '=', len))
        return pb_settings_apply(copy, line, len, err);
    if (pb_settings_find(line, len) < 0)
        return pb_err_set(err, PB_USAGE, "no setting '%.*s'", (int)(len < 60 ? len : 60), line);
    return 0;
}

/* Calls for each line that is not empty; -1 as soon as one fails. */
static int config_lines(struct pb_self *self, struct pb_client *c, struct pb_settings *copy,
                        bool show, struct pb_err *err)
{
    const char *text = (const char *)c->in.body, *end = text + c->in.head.len;

    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t len = (size_t)((stop ? stop : end) - text);

        if (len && show && !memchr(text, '=', len))
            show_setting(self, c, pb_settings_find(text, len));
        else if (len && !show && config_line(copy, text, len, err) < 0)
            return -1;
        text += len + 1;
    }
    return 0;
}

static void audit(struct pb_self *self, const struct pb_client *c, const char *action,
                  const char *result)
{
    pb_audit_write(self, &(struct pb_audit){
                             .action = action,
                             .result = result,
                             .uid = c->uid,
                             .pid = c->pid,
                             .client = c->name,
                             .wall_ns = pb_clock_wall_ns(),
                             .asked_ns = pb_clock_ns(),
                             .detail = c->in.head.len ? (const char *)c->in.body : NULL,
                             .detail_len = c->in.head.len,
                         });
}

static void handle_config(struct pb_self *self, struct pb_client *c)
{
    struct pb_settings copy = self->settings;
    struct pb_err err = {0};
    int rc = config_lines(self, c, &copy, false, &err);

    if (c->in.head.len && memchr(c->in.body, '=', c->in.head.len))
        audit(self, c, "config", rc < 0 ? "refused" : "ok");
    if (rc < 0) {
        pb_jobs_answer(self, c, c->in.head.id, PB_WIRE_REFUSED, err.msg);
        return;
    }
    pb_lifecycle_apply_settings(self, &copy);
    if (c->in.head.len)
        config_lines(self, c, &copy, true, &err);
    else
        for (int i = 0; i < PB_SETTING_COUNT; i++)
            show_setting(self, c, i);
    pb_jobs_answer(self, c, c->in.head.id, PB_WIRE_OK, "");
}

/* A number below 2^32 - 1, else -1. */
static int64_t number(const char *text)
{
    int64_t v = 0;
    int digits = 0;

    for (; *text >= '0' && *text <= '9' && digits < 10; text++, digits++)
        v = v * 10 + (*text - '0');
    return digits && !*text && v < UINT32_MAX ? v : -1;
}

/*
 * A node asks in somebody's name and says so first, once: what comes behind is passed on from that
 * client, who may not take another name. Whoever reaches the socket is the owner or root anyway.
 */
static void handle_client(struct pb_self *self, struct pb_client *c)
{
    const char *text = (const char *)c->in.body, *end = text + c->in.head.len;
    int64_t uid = -1, pid = -1;

    if (c->spoke) {
        c->gone = true;
        return;
    }
    pthread_mutex_lock(&self->lock);
    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t len = (size_t)((stop ? stop : end) - text);
        char line[PB_WIRE_CLIENT_NAME + 8];

        snprintf(line, sizeof line, "%.*s", (int)len, text);
        if (strncmp(line, "name=", 5) == 0)
            snprintf(c->name, sizeof c->name, "%.*s", PB_WIRE_CLIENT_NAME - 1, line + 5);
        else if (strncmp(line, "uid=", 4) == 0)
            uid = number(line + 4);
        else if (strncmp(line, "pid=", 4) == 0)
            pid = number(line + 4);
        text += len + 1;
    }
    c->uid = uid < 0 ? (uid_t)-1 : (uid_t)uid;
    c->pid = pid < 0 ? 0 : (pid_t)pid;
    pthread_mutex_unlock(&self->lock);
}

void pb_requests_handle(struct pb_self *self, struct pb_client *c)
{
    if (c->in.head.type == PB_WIRE_CLIENT) {
        handle_client(self, c);
        c->spoke = true;
        return;
    }
    c->spoke = true;
    switch (c->in.head.type) {
    case PB_WIRE_EVAL:
        pb_jobs_start(self, c);
        break;
    case PB_WIRE_COMPLETE:
        if (c->in.head.len)
            pb_jobs_start(self, c);
        else
            pb_jobs_answer(self, c, c->in.head.id, PB_WIRE_OK, "");
        break;
    case PB_WIRE_INTERRUPT:
        pb_jobs_interrupt(self, c, c->in.head.id);
        break;
    case PB_WIRE_CONFIG:
        handle_config(self, c);
        break;
    case PB_WIRE_STATUS:
        handle_status(self, c);
        break;
    case PB_WIRE_EJECT:
        /* Answered when everything is gone. */
        audit(self, c, "eject", "ok");
        c->leaving = true;
        c->eject_id = c->in.head.id;
        self->stop_wanted = true;
        break;
    default:
        c->gone = true;
    }
}

void pb_requests_leave(struct pb_self *self)
{
    pb_jobs_break_all(self);
    pb_gil_task_add(self, PB_GIL_TASK_INTERRUPT | PB_GIL_TASK_CLEANUP);
    /* If the GIL is not to be had, the helper does the rest when it is. */
    for (int i = 0; i < LEAVE_MS && self->helper; i++)
        usleep(1000);
}
