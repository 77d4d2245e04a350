-- slow_gpu: a GPU that holds itself back, or has memory errors that were not corrected
-- Of GPUs that a training's processes use, in the last twelve seconds: its clocks were lowered for
-- heat or power by the hardware in most of the samples while it worked, or uncorrected errors of its
-- memory were counted. A limit of power that is met at full work (sw_power_cap) is none.
WITH used AS (
    SELECT host, pid, device FROM gpu.process WHERE timestamp > now() - INTERVAL 12 SECOND
    GROUP BY host, pid, device
),
devices AS (
    SELECT host, device, any_value(name) AS name, count(*) AS n,
           count(*) FILTER (gpu_util > 20 AND regexp_matches(throttle, 'thermal|slowdown|brake'))
               AS held,
           mode(throttle) FILTER (regexp_matches(throttle, 'thermal|slowdown|brake')) AS reasons,
           median(sm_clock_mhz) AS mhz, max(temperature_c) AS degrees,
           max(ecc_uncorrected) - min(ecc_uncorrected) AS errors
    FROM gpu.utilization WHERE timestamp > now() - INTERVAL 12 SECOND GROUP BY host, device
)
SELECT 'slow' AS kind, CASE WHEN d.errors > 0 THEN 'memory errors of a GPU' ELSE 'throttled GPU' END
           AS class, 'supported' AS confidence, t.family, t.family_rank AS rank, t.host, t.pid, t.tid,
       NULL::VARCHAR AS file, NULL::BIGINT AS line, NULL::VARCHAR AS func, 0 AS stuck_ms,
       CASE WHEN d.errors > 0
            THEN format('GPU {} of {} has {} new memory errors that were not corrected', d.device,
                        t.who, d.errors)
            ELSE format('GPU {} of {} holds its clocks down: {}', d.device, t.who, d.reasons) END
           AS what,
       format('{} at {:.0f} MHz and {:.0f} C, held back in {} of {} samples', d.name, d.mhz,
              d.degrees, d.held, d.n) AS why,
       'nvidia-smi -q -d PERFORMANCE,ECC; take the machine out if it stays so' AS next,
       format('SELECT timestamp, device, gpu_util, throttle, sm_clock_mhz, temperature_c, power_w, '
              'ecc_uncorrected FROM gpu.utilization WHERE device = {} ORDER BY timestamp DESC '
              'LIMIT 20', d.device) AS evidence
FROM devices AS d JOIN used AS u ON u.host = d.host AND u.device = d.device
JOIN subjects AS t ON t.host = u.host AND t.pid = u.pid
WHERE d.errors > 0 OR (d.n >= 6 AND d.held > 0.6 * d.n)
QUALIFY row_number() OVER (PARTITION BY t.family ORDER BY d.errors DESC, d.held DESC, t.pid) = 1
