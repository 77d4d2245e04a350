#include "host/process/mem.h"

#include <sys/uio.h>
#include <unistd.h>

#include "host/process/stall.h"

/* The kernel would take 1024; fewer keep the arrays small. */
#define RANGES_PER_CALL 64
#define PAGE 4096

/* Ranges of v, n at most RANGES_PER_CALL, that one call filled completely. */
static size_t read_some(pid_t pid, const struct pb_mem_range *v, size_t n)
{
    struct iovec local[RANGES_PER_CALL], remote[RANGES_PER_CALL];
    size_t done = 0;
    ssize_t got;
    int slot;

    local[0] = remote[0] = (struct iovec){NULL, 0};
    for (size_t i = 0; i < n; i++) {
        local[i] = (struct iovec){v[i].buf, v[i].len};
        remote[i] = (struct iovec){(void *)(uintptr_t)v[i].addr, v[i].len};
    }
    slot = pb_stall_begin(pid);
    if (slot == PB_STALL_REFUSED)
        return 0;
    got = process_vm_readv(pid, local, n, remote, n, 0);
    pb_stall_end(slot);
    if (got < 0)
        return 0;
    while (done < n && v[done].len <= (size_t)got) {
        got -= (ssize_t)v[done].len;
        done++;
    }
    return done;
}

static size_t read_process(struct pb_mem *mem, const struct pb_mem_range *v, size_t n)
{
    size_t done = 0;

    while (done < n) {
        size_t want = n - done < RANGES_PER_CALL ? n - done : RANGES_PER_CALL;
        size_t got = read_some(mem->pid, v + done, want);

        done += got;
        if (got < want)
            break;
    }
    return done;
}

void pb_mem_init_process(struct pb_mem *mem, pid_t pid)
{
    *mem = (struct pb_mem){.read = read_process, .pid = pid};
}

size_t pb_mem_get_start(struct pb_mem *mem, uint64_t addr, void *buf, size_t len)
{
    struct pb_mem_range pages[RANGES_PER_CALL];
    size_t done = 0;

    while (done < len) {
        size_t n = 0, next = done, got;

        for (; n < RANGES_PER_CALL && next < len; n++) {
            size_t part = PAGE - (size_t)((addr + next) % PAGE);

            if (part > len - next)
                part = len - next;
            pages[n] = (struct pb_mem_range){addr + next, (char *)buf + next, part};
            next += part;
        }
        got = mem->read(mem, pages, n);
        for (size_t i = 0; i < got; i++)
            done += pages[i].len;
        if (got < n)
            break;
    }
    return done;
}

bool pb_mem_string(struct pb_mem *mem, uint64_t addr, char *buf, size_t cap)
{
    /* Pieces end at multiples of 256, so that none crosses a page. */
    const size_t step = 256;
    size_t len = 0;

    if (cap == 0)
        return false;
    while (len + 1 < cap) {
        size_t want = step - (size_t)((addr + len) % step);
        char *end;

        if (want > cap - 1 - len)
            want = cap - 1 - len;
        if (!pb_mem_get(mem, addr + len, buf + len, want))
            break;
        end = memchr(buf + len, '\0', want);
        if (end)
            return true;
        len += want;
    }
    buf[len] = '\0';
    return len > 0;
}
