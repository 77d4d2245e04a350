-- What can be said of processes that are well.
WITH w AS MATERIALIZED (SELECT * FROM python.waits),
p AS (SELECT max(step) AS step, median(last_step_ms) AS ms FROM python.progress
      WHERE makes_steps AND steps_ended > 0)
SELECT (SELECT count(DISTINCT pid) FROM w), (SELECT count(*) FROM w),
       (SELECT count(*) FROM w WHERE kind = 'running'), (SELECT step FROM p), (SELECT ms FROM p)
