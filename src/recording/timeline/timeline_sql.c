#include "recording/timeline/timeline.h"

#include <string.h>

/*
 * Columns: kind, pid, rank, track, begin (us since 1970), length (us), name, value, unit, step,
 * bytes, GPU time (ms), detail. @ stands for the window.
 */
static const char steps[] =
    "SELECT 'lanes', pid, rank, 'steps', epoch_us(timestamp) - (step_ms * 1000)::BIGINT AS begin, "
    "(step_ms * 1000)::BIGINT AS length, 'step ' || step, NULL::DOUBLE, NULL::VARCHAR, step, "
    "NULL::BIGINT, NULL::DOUBLE, 'loss ' || loss FROM python.training_logs WHERE @ AND step_ms IS "
    "NOT NULL ORDER BY pid, begin";

static const char modules[] =
    "SELECT 'nested', pid, rank, 'modules' || CASE WHEN tid = pid OR tid IS NULL THEN '' ELSE ' "
    "(thread ' || tid || ')' END AS track, epoch_us(timestamp) AS begin, (duration_ms * "
    "1000)::BIGINT AS length, CASE WHEN coalesce(module, '') = '' THEN module_type ELSE module "
    "END, NULL::DOUBLE, NULL::VARCHAR, step, (allocated_delta * 1048576)::BIGINT, gpu_ms, "
    "module_type || ', ' || stage FROM python.torch_trace WHERE @ AND duration_ms IS NOT NULL "
    "ORDER BY pid, track, begin, length DESC";

/* One that has not ended reaches to the end of the window. */
static const char operations[] =
    "SELECT 'lanes', pid, rank, 'collectives', epoch_us(timestamp) AS begin, coalesce((latency_ms "
    "* 1000)::BIGINT, $ - begin), op || CASE WHEN latency_ms IS NULL THEN ' (not ended)' ELSE '' "
    "END, NULL::DOUBLE, NULL::VARCHAR, step, bytes, NULL::DOUBLE, concat_ws(', ', group_name, "
    "'number ' || seq, dtype, state, 'to rank ' || dst_rank) FROM comm_metrics WHERE @ AND "
    "(latency_ms IS NOT NULL OR state IN ('started', 'enqueued')) ORDER BY pid, begin";

static const char spans[] =
    "SELECT 'nested', pid, rank, 'spans' || CASE WHEN tid = pid OR tid IS NULL THEN '' ELSE ' "
    "(thread ' || tid || ')' END AS track, epoch_us(timestamp) AS begin, (duration_ms * "
    "1000)::BIGINT AS length, name, NULL::DOUBLE, NULL::VARCHAR, NULL::BIGINT, NULL::BIGINT, "
    "NULL::DOUBLE, concat_ws(', ', attrs, error) FROM python.spans WHERE @ AND duration_ms IS NOT "
    "NULL ORDER BY pid, track, begin, length DESC";

static const char memory[] =
    "SELECT 'counter', pid, rank, track, begin, NULL::BIGINT, NULL::VARCHAR, value, 'MB', "
    "NULL::BIGINT, NULL::BIGINT, NULL::DOUBLE, NULL::VARCHAR FROM (SELECT pid, rank, "
    "epoch_us(timestamp) AS begin, unnest([{'track': 'resident memory', 'value': rss_mb}, "
    "{'track': 'memory of Python''s allocator', 'value': python_mb}, {'track': 'memory of "
    "malloc', 'value': heap_mb}, {'track': 'GPU memory, allocated', 'value': cuda_allocated_mb}, "
    "{'track': 'GPU memory, reserved', 'value': cuda_reserved_mb}], recursive := true) FROM "
    "python.memory WHERE @) WHERE value IS NOT NULL ORDER BY pid, track, begin";

static const char processors[] =
    "SELECT 'counter', pid, rank, 'CPU', epoch_us(timestamp) AS begin, NULL::BIGINT, "
    "NULL::VARCHAR, cpu_pct, '%', NULL::BIGINT, NULL::BIGINT, NULL::DOUBLE, NULL::VARCHAR FROM "
    "system.cpu WHERE @ AND cpu_pct IS NOT NULL ORDER BY pid, begin";

static const char progress[] =
    "SELECT 'counter', pid, rank, track, begin, NULL::BIGINT, NULL::VARCHAR, value, unit, "
    "NULL::BIGINT, NULL::BIGINT, NULL::DOUBLE, NULL::VARCHAR FROM (SELECT pid, rank, "
    "epoch_us(timestamp) AS begin, unnest([{'track': 'loss', 'value': loss, 'unit': ''}, "
    "{'track': 'samples a second', 'value': samples_per_s, 'unit': '1/s'}], recursive := true) "
    "FROM python.training_logs WHERE @) WHERE value IS NOT NULL ORDER BY pid, track, begin";

static const char gpus[] =
    "SELECT 'counter', NULL::BIGINT, NULL::BIGINT, 'GPU ' || device || ' ' || track, begin, "
    "NULL::BIGINT, NULL::VARCHAR, value, unit, NULL::BIGINT, NULL::BIGINT, NULL::DOUBLE, "
    "NULL::VARCHAR FROM (SELECT device, epoch_us(timestamp) AS begin, unnest([{'track': 'use', "
    "'value': gpu_util, 'unit': '%'}, {'track': 'memory', 'value': memory_used_mb, 'unit': 'MB'}, "
    "{'track': 'power', 'value': power_w, 'unit': 'W'}, {'track': 'multiprocessors at work', "
    "'value': sm_active_pct, 'unit': '%'}], recursive := true) FROM gpu.utilization WHERE @) "
    "WHERE value IS NOT NULL ORDER BY device, track, begin";

const char pb_timeline_newest[] =
    "SELECT epoch_ms(max(t)) FROM (SELECT max(timestamp) AS t FROM python.samples UNION ALL "
    "SELECT max(timestamp) FROM python.training_logs UNION ALL SELECT max(timestamp) FROM "
    "python.memory UNION ALL SELECT max(timestamp) FROM system.cpu)";

static void put(struct pb_buf *out, const char *sql, const struct pb_history_window *w)
{
    for (; *sql; sql++)
        if (*sql == '@')
            pb_buf_printf(out, "timestamp >= make_timestamptz(%lld) AND timestamp < "
                               "make_timestamptz(%lld)",
                          (long long)w->from_ms * 1000, (long long)w->to_ms * 1000);
        else if (*sql == '$')
            pb_buf_printf(out, "%lld", (long long)w->to_ms * 1000);
        else
            pb_buf_putc(out, *sql);
    pb_buf_puts(out, ";\n");
}

void pb_timeline_sql(struct pb_buf *out, const struct pb_history_window *w)
{
    static const char *const all[] = {steps, modules,    operations, spans,
                                      memory, processors, progress,   gpus};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        put(out, all[i], w);
}
