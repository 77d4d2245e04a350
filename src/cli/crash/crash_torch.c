/*
 * torchrun gives each process the name of a file for its error, which only its own @record writes,
 * and for exceptions alone. Filled for a signal it makes torchrun's report show our stack.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/crash/crash_take.h"
#include "host/text/json_write.h"
#include "host/process/proc.h"

/* The outermost first, as Python shows them. */
static void add_stack(const struct pb_crash_taken *t, struct pb_buf *out)
{
    pb_buf_puts(out, "Traceback (most recent call last), by probing:\n");
    for (size_t i = t->thread ? t->thread->nframes : 0; i-- > 0;) {
        const struct pb_frame *f = &t->thread->frames[i];

        if (f->native)
            pb_buf_printf(out, "  [C] %s in %s\n", f->func ? f->func : "?",
                          f->module ? f->module : "?");
        else
            pb_buf_printf(out, "  File \"%s\", line %d, in %s\n", f->file ? f->file : "?",
                          f->lineno, f->func);
    }
    pb_buf_printf(out, "%s", t->cause);
}

void pb_crash_torch(struct pb_crash_taken *t)
{
    const char *path = t->environ ? pb_proc_getenv(t->environ, t->environ_len,
                                                   "TORCHELASTIC_ERROR_FILE")
                                  : NULL;
    struct pb_buf stack = PB_BUF_INIT, out = PB_BUF_INIT;
    ssize_t n = -1;
    int fd;

    if (t->record.kind != PB_CRASH_SIGNAL || !path || path[0] != '/')
        return;
    add_stack(t, &stack);
    pb_buf_puts(&out, "{\"message\":{\"message\":");
    pb_json_string(&out, t->cause);
    pb_buf_puts(&out, ",\"extraInfo\":{\"py_callstack\":");
    pb_json_string(&out, stack.data);
    pb_buf_printf(&out, ",\"timestamp\":\"%lld\"}}}", (long long)(t->record.wall_ns / 1000000000));
    /* One that is there was written by who knows better. */
    fd = open(path,
              O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (t->torch_file ? O_TRUNC : O_EXCL),
              0644);
    if (fd >= 0) {
        n = write(fd, out.data, out.len);
        close(fd);
        t->torch_file = n == (ssize_t)out.len;
        if (!t->torch_file)
            unlink(path);
    }
    pb_buf_finish(&out);
    pb_buf_finish(&stack);
}
