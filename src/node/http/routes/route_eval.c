/*
 * POST /api/eval - Python in a process; what it prints comes while it runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/text/json_write.h"
#include "host/process/proc.h"
#include "node/http/process_agent.h"
#include "node/http/request.h"

/* What the agent may take beyond the time that the code has: interrupting it, and answering. */
#define SLACK_MS 6000
#define TIMEOUT_MAX_S 86400

static void run(struct pb_request *rq);

const struct pb_route pb_route_eval = {
    .method = "POST",
    .path = "/api/eval",
    .doc = "Python: {code, target?, timeout?, main?, frame?, tid?}",
    .run = run,
    .needs = PB_RIGHT_CONTROL,
};

/* Bytes of a stream that belong to a character whose end is still to come. */
struct tail {
    char bytes[4];
    size_t len;
};

struct stream {
    struct pb_request *rq;
    struct tail tails[2];
};

static void send_line(struct stream *s, const char *key, struct pb_buf *text)
{
    struct pb_buf line = PB_BUF_INIT;

    /* A NUL would end the text; it has no place in what people read. */
    for (size_t i = 0; i < text->len; i++)
        if (!text->data[i])
            text->data[i] = ' ';
    pb_buf_putc(&line, '{');
    pb_json_key(&line, key);
    pb_json_string(&line, text->data);
    pb_buf_puts(&line, "}\n");
    pb_reply_write(s->rq, line.data, line.len);
    pb_reply_flush(s->rq);
    pb_buf_finish(&line);
}

static void send_output(int fd, const void *data, size_t len, void *arg)
{
    struct stream *s = arg;
    struct tail *tail = &s->tails[fd == 2];
    struct pb_buf text = PB_BUF_INIT;
    size_t hold;

    pb_buf_add(&text, tail->bytes, tail->len);
    pb_buf_add(&text, data, len);
    hold = pb_utf8_unfinished(text.data, text.len);
    text.len -= hold;
    memcpy(tail->bytes, text.data + text.len, hold);
    tail->len = hold;
    text.data[text.len] = '\0';
    if (text.len)
        send_line(s, fd == 2 ? "err" : "out", &text);
    pb_buf_finish(&text);
}

static const char *result_name(enum pb_wire_result result)
{
    static const char *const names[] = {
        [PB_WIRE_OK] = "ok",           [PB_WIRE_EXCEPTION] = "exception",
        [PB_WIRE_REFUSED] = "refused", [PB_WIRE_NO_GIL] = "no_gil",
        [PB_WIRE_EXPIRED] = "expired", [PB_WIRE_INTERRUPTED] = "interrupted",
        [PB_WIRE_MORE] = "more",
    };

    return (size_t)result < sizeof names / sizeof *names ? names[result] : "refused";
}

static void send_done(struct pb_request *rq, enum pb_wire_result result, const char *why)
{
    struct pb_buf b = PB_BUF_INIT;

    pb_buf_puts(&b, "{\"done\":{");
    pb_json_key(&b, "result");
    pb_json_string(&b, result_name(result));
    pb_json_key(&b, "why");
    pb_json_string(&b, why ? why : "");
    pb_buf_puts(&b, "}}\n");
    pb_reply_write(rq, b.data, b.len);
    pb_reply_end(rq);
    pb_buf_finish(&b);
}

struct question {
    struct pb_wire_eval how;
    char name[PB_WIRE_FRAME_NAME_MAX + 1]; /* a function's name, for PB_WIRE_NAMED */
};

static size_t size_of(const struct question *q)
{
    return sizeof q->how + (q->how.flags & PB_WIRE_NAMED ? strlen(q->name) + 1 : 0);
}

/* A number, or the name of a function. */
static int read_frame(struct pb_request *rq, struct question *q, struct pb_err *err)
{
    const struct pb_json *frame = pb_json_get(rq->body, "frame");
    const char *name = pb_json_str(rq->body, "frame", NULL);

    if (frame && frame->type == PB_J_INT) {
        q->how.flags |= PB_WIRE_FRAME;
        q->how.frame = (int32_t)pb_json_whole(rq->body, "frame", 0);
    } else if (name) {
        if (!name[0] || strlen(name) >= sizeof q->name)
            return pb_err_set(err, PB_USAGE, "frame is a number or the name of a function");
        q->how.flags |= PB_WIRE_FRAME | PB_WIRE_NAMED;
        snprintf(q->name, sizeof q->name, "%s", name);
    }
    return 0;
}

static int read_question(struct pb_request *rq, pid_t pid, struct question *q,
                         struct pb_err *err)
{
    double timeout = pb_json_number(rq->body, "timeout", 0);
    pid_t tid = (pid_t)pb_json_whole(rq->body, "tid", 0);
    struct pb_proc_status status;

    *q = (struct question){0};
    if (!(timeout >= 0 && timeout <= TIMEOUT_MAX_S))
        return pb_err_set(err, PB_USAGE, "timeout is 0 to %d seconds", TIMEOUT_MAX_S);
    q->how.timeout_ms = (uint32_t)(timeout * 1000);
    if (read_frame(rq, q, err) < 0)
        return -1;
    if (tid)
        q->how.flags |= PB_WIRE_FRAME;
    if (pb_json_flag(rq->body, "main", false) && q->how.flags)
        return pb_err_set(err, PB_USAGE, "main and frame exclude each other");
    if (pb_json_flag(rq->body, "main", false))
        q->how.flags |= PB_WIRE_MAIN;
    if (!tid)
        return 0;
    /* The target knows its threads by the numbers of its own namespace. */
    if (pb_proc_status(&status, tid, NULL) < 0 || status.tgid != pid)
        return pb_err_set(err, PB_NO_TARGET, "%d: no thread %d", (int)pid, (int)tid);
    q->how.tid = status.ns_pid;
    return 0;
}

static int wait_ms(const struct pb_agent *a, const struct pb_wire_eval *e)
{
    return (e->timeout_ms ? (int)e->timeout_ms : pb_agent_eval_ms(a)) + SLACK_MS;
}

static void evaluate(struct pb_request *rq, struct pb_agent *agent, const struct question *q,
                     const struct pb_json *code)
{
    struct stream stream = {.rq = rq};
    enum pb_wire_result result = PB_WIRE_OK;
    struct pb_err err = {0};
    const char *why = NULL;
    int rc;

    pb_reply_begin(rq, 200, "application/x-ndjson");
    /* Closing the connection interrupts the code. */
    pb_request_watch(rq, agent->fd);
    rc =
        pb_agent_ask(agent, PB_WIRE_EVAL, q, size_of(q), code->s, code->len,
                     wait_ms(agent, &q->how), send_output, &stream, rq->arena, &result, &why, &err);
    pb_request_watch(rq, -1);
    if (rc == 0)
        send_done(rq, result, why);
    else
        pb_reply_error(rq, &err, -1, NULL);
}

static void run(struct pb_request *rq)
{
    const struct pb_json *code = pb_json_get(rq->body, "code");
    struct pb_agent agent = {.fd = -1};
    struct question q;
    struct pb_err err = {0};
    pid_t pid;

    if (!code || code->type != PB_J_STRING)
        pb_err_set(&err, PB_USAGE, "no \"code\" in the body");
    else if (pb_request_process(rq, &pid, &err) == 0 && read_question(rq, pid, &q, &err) == 0 &&
             pb_request_agent(rq, pid, true, &agent, &err) == 0)
        evaluate(rq, &agent, &q, code);
    if (err.code != PB_OK)
        pb_reply_error(rq, &err, -1, NULL);
    pb_agent_close(&agent);
}
