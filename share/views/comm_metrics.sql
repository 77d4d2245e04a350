-- comm_metrics: communication between ranks, one row an operation
--   timestamp   TIME          when it began
--   op          NAME          all_reduce, broadcast, send, …
--   src_rank    INT           rank that sends, for a collective this rank
--   dst_rank    INT           rank that receives; none for a collective
--   latency_ms  REAL  ms      from the call to its end; on a GPU as its stream had it; none before
--   bytes       INT   bytes   data of this rank
--   dtype       NAME          type of the elements
--   group_name  NAME          process group
--   group_size  INT           ranks in the group
--   seq         INT           number of the operation in its group
--   state       NAME          started, enqueued (GPU); done, failed, dropped, captured
--   step        INT           training step
--   job         NAME          job that the ranks belong to: its master's address
--   host        NAME          machine
--   pid         INT           process id
--   rank        INT           rank in its job, if it has one
SELECT timestamp, op, src_rank, dst_rank, latency_ms, bytes, dtype, group_name, group_size, seq,
       state, step, job, host, pid, rank
FROM python.comm
WHERE state <> 'seen'
-- The row of its beginning gives way to that of its end.
QUALIFY row_number() OVER (PARTITION BY host, pid, timestamp, op, group_name, seq
                           ORDER BY state IN ('started', 'enqueued'), state <> 'failed') = 1
