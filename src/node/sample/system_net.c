#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "node/sample/procfile.h"
#include "node/sample/sampler.h"

#define COLUMNS(X)                                                                                \
    X(timestamp, TIME, "", "when the row was made")                                               \
    X(interface, NAME, "", "network interface, or RDMA device and port: mlx5_0:1")                \
    X(kind, NAME, "", "net, rdma")                                                                \
    X(rx_mb_s, REAL, "MB/s", "received")                                                          \
    X(tx_mb_s, REAL, "MB/s", "sent")                                                              \
    X(rx_packets_s, REAL, "1/s", "packets received")                                              \
    X(tx_packets_s, REAL, "1/s", "packets sent")                                                  \
    X(rx_errors, INT, "", "damaged on the way in, since the last look")                           \
    X(tx_errors, INT, "", "not sent because of an error, since the last look")                    \
    X(rx_drops, INT, "", "thrown away on the way in, since the last look")                        \
    X(tx_drops, INT, "", "thrown away on the way out, since the last look")                       \
    X(retransmits, INT, "", "RDMA: sent again, since the last look")                              \
    X(congestion, INT, "", "RDMA: ticks in which data waited for credits, since the last look")   \
    PB_SAMPLE_OF_MACHINE(X)

PB_TABLE_COLUMNS(COLUMNS);

enum { RX_BYTES, TX_BYTES, RX_PACKETS, TX_PACKETS, RX_ERRORS, TX_ERRORS, RX_DROPS, TX_DROPS,
       RETRANSMITS, CONGESTION, NCOUNTERS };

static const unsigned column_of[NCOUNTERS] = {
    AT_rx_mb_s,   AT_tx_mb_s,    AT_rx_packets_s, AT_tx_packets_s, AT_rx_errors,
    AT_tx_errors, AT_rx_drops,   AT_tx_drops,     AT_retransmits,  AT_congestion,
};

enum { NAME_MAX_ = 64, PORTS_MAX = 256, TEXT_MAX = 64 << 10 };

struct port {
    char name[NAME_MAX_];
    bool rdma, moved, known;
    uint64_t v[NCOUNTERS];
};

struct state {
    struct port ports[PORTS_MAX];
    size_t n;
    char text[TEXT_MAX];
    uint64_t rdma_ns; /* when ports of RDMA devices were last looked for */
};

static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring);

const struct pb_sampler pb_sampler_system_net = {
    .ring = {PB_TABLE_SPEC("system.net",
                           "network interfaces and RDMA ports: a row while one is used, and one "
                           "when that stops"),
             .rows = 4096,
             .flags = PB_RING_SHARED},
    .every_s = 1,
    .state_size = sizeof(struct state),
    .tick = tick,
};

static struct port *find(struct state *s, const char *name, bool rdma)
{
    struct port *p;

    for (size_t i = 0; i < s->n; i++) {
        if (s->ports[i].rdma == rdma && strcmp(s->ports[i].name, name) == 0)
            return &s->ports[i];
    }
    if (s->n == PORTS_MAX || strlen(name) >= NAME_MAX_)
        return NULL;
    p = &s->ports[s->n++];
    *p = (struct port){.rdma = rdma};
    memcpy(p->name, name, strlen(name) + 1);
    return p;
}

/* An Ethernet driver counts no retransmits: columns from `counters` on stay NULL. */
static void append_row(struct port *p, const uint64_t *now, int counters,
                       const struct pb_sample_tick *t, struct pb_ring *ring)
{
    union pb_cell row[NCOLUMNS];
    bool moved = false;

    pb_sample_row(row, &pb_sampler_system_net, t);
    row[AT_interface].name = pb_sample_name(ring, p->name);
    row[AT_kind].name = pb_sample_name(ring, p->rdma ? "rdma" : "net");
    for (int i = 0; i < counters; i++) {
        union pb_cell *cell = &row[column_of[i]];

        moved |= p->known && now[i] != p->v[i];
        if (i <= TX_BYTES)
            cell->d = pb_sample_rate(now[i], p->v[i], PB_SAMPLE_MB, t->seconds);
        else if (i <= TX_PACKETS)
            cell->d = pb_sample_rate(now[i], p->v[i], 1, t->seconds);
        else if (now[i] >= p->v[i])
            cell->i = (int64_t)(now[i] - p->v[i]);
        p->v[i] = now[i];
    }
    if ((moved || p->moved) && p->known && t->seconds > 0)
        pb_ring_append(ring, row);
    p->moved = moved;
    p->known = true;
}

/* "  eth0: bytes packets errs drop fifo frame compressed multicast bytes packets errs drop …" */
static void parse_line(struct state *s, const char *line, const struct pb_sample_tick *t,
                       struct pb_ring *ring)
{
    static const int order[] = {RX_BYTES, RX_PACKETS, RX_ERRORS, RX_DROPS, -1, -1, -1, -1,
                                TX_BYTES, TX_PACKETS, TX_ERRORS, TX_DROPS};
    const char *name = line + strspn(line, " "), *at = name + strcspn(name, ":\n");
    uint64_t now[NCOUNTERS] = {0}, v;
    char text[NAME_MAX_];
    struct port *p;

    if (*at != ':' || at - name >= NAME_MAX_)
        return;
    memcpy(text, name, (size_t)(at - name));
    text[at - name] = '\0';
    at++;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        if (!pb_scan_u64(&at, &v))
            return;
        if (order[i] >= 0)
            now[order[i]] = v;
    }
    p = strcmp(text, "lo") == 0 ? NULL : find(s, text, false);
    if (p)
        append_row(p, now, RETRANSMITS, t, ring);
}

static uint64_t counter(const char *port, const char *name)
{
    uint64_t v;

    return pb_sample_number(&v, "/sys/class/infiniband/%s/%s", port, name) ? v : 0;
}

static void read_rdma_port(struct port *p, const struct pb_sample_tick *t, struct pb_ring *ring)
{
    char path[NAME_MAX_ + 16];
    size_t device = strcspn(p->name, ":");
    uint64_t now[NCOUNTERS];

    snprintf(path, sizeof path, "%.*s/ports/%s", (int)device, p->name, p->name + device + 1);
    /* The data counters count words of four bytes. */
    now[RX_BYTES] = 4 * counter(path, "counters/port_rcv_data");
    now[TX_BYTES] = 4 * counter(path, "counters/port_xmit_data");
    now[RX_PACKETS] = counter(path, "counters/port_rcv_packets");
    now[TX_PACKETS] = counter(path, "counters/port_xmit_packets");
    now[RX_ERRORS] = counter(path, "counters/port_rcv_errors") +
                     counter(path, "counters/symbol_error");
    now[TX_ERRORS] = counter(path, "counters/link_downed") +
                     counter(path, "hw_counters/local_ack_timeout_err");
    now[RX_DROPS] = counter(path, "hw_counters/out_of_buffer");
    now[TX_DROPS] = counter(path, "counters/port_xmit_discards");
    now[RETRANSMITS] = counter(path, "hw_counters/packet_seq_err") +
                       counter(path, "hw_counters/out_of_sequence") +
                       counter(path, "hw_counters/roce_adp_retrans");
    now[CONGESTION] = counter(path, "counters/port_xmit_wait");
    append_row(p, now, NCOUNTERS, t, ring);
}

static void find_ports(struct state *s, const char *device)
{
    char path[NAME_MAX_ + 64], name[2 * NAME_MAX_];
    struct dirent *e;
    DIR *dir;

    snprintf(path, sizeof path, "/sys/class/infiniband/%.63s/ports", device);
    dir = opendir(path);
    while (dir && (e = readdir(dir))) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%.50s:%.10s", device, e->d_name);
        (void)find(s, name, true);
    }
    if (dir)
        closedir(dir);
}

/* Devices are looked for once a minute; most machines have none. */
static void find_rdma(struct state *s, uint64_t mono_ns)
{
    struct dirent *e;
    DIR *dir;

    if (s->rdma_ns && mono_ns - s->rdma_ns < 60000000000u)
        return;
    s->rdma_ns = mono_ns;
    dir = opendir("/sys/class/infiniband");
    while (dir && (e = readdir(dir))) {
        if (e->d_name[0] != '.')
            find_ports(s, e->d_name);
    }
    if (dir)
        closedir(dir);
}

static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring)
{
    struct state *s = state;
    const char *line = s->text;

    if (pb_sample_file(s->text, sizeof s->text, "/proc/net/dev") <= 0)
        line = NULL;
    while (line && *line) {
        parse_line(s, line, t, ring);
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    find_rdma(s, t->mono_ns);
    for (size_t i = 0; i < s->n; i++) {
        if (s->ports[i].rdma)
            read_rdma_port(&s->ports[i], t, ring);
    }
}
