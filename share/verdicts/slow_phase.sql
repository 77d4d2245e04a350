-- slow_phase: a training that does something else most of the time, again and again
-- By glances from outside: it was met in a library for data, checkpoints, logs or compilation, in
-- Python code of a layer, collecting garbage, or in code beside the model (Python, files, network,
-- sleep), and came back to that from its own work at least four times, or with as many other losses,
-- so that neither the first batch nor a long checkpoint or collection counts; or it was met collecting
-- nearly all the time. The line is where it was met most at that.
SELECT 'slow' AS kind,
       CASE phase WHEN 'data' THEN 'starved data loader' WHEN 'logging' THEN 'logging in the loop'
                  WHEN 'checkpoint' THEN 'checkpoint in the loop'
                  WHEN 'compilation' THEN 'recompilation in the loop'
                  WHEN 'Python code of a layer' THEN 'slow layer'
                  WHEN 'code beside the model' THEN 'slow code beside the model'
                  ELSE phase END AS class,
       'supported' AS confidence, family, rank, host, pid, tid, phase_file AS file,
       phase_line AS line, phase_func AS func, 0 AS stuck_ms,
       format('{} spends {:.0f} % of its time on {}', who, 100 * phase_glances / glances,
              CASE phase WHEN 'data' THEN 'data to come' WHEN 'checkpoint' THEN 'checkpoints'
                         ELSE phase END) AS what,
       format('met there {} of {} times, most at {} {}:{}, in {} turns', phase_glances, glances,
              phase_func, regexp_extract(phase_file, '[^/]*$'), phase_line, phase_turns) AS why,
       CASE phase WHEN 'data' THEN 'more workers, less work for each sample, or faster storage'
                  WHEN 'garbage collection'
                  THEN 'collect less often: gc.freeze() or a higher gc.set_threshold()'
                  WHEN 'compilation'
                  THEN 'mark what changes as dynamic; why it compiles again: TORCH_LOGS=recompiles'
                  WHEN 'Python code of a layer'
                  THEN 'operations on whole tensors in place of Python code there'
                  WHEN 'code beside the model'
                  THEN 'do it less often, in a worker or a thread, or make it faster there'
                  ELSE 'do it less often, or in a thread of its own' END AS next
FROM subjects
WHERE phase <> 'own' AND glances >= 45 AND phase_line IS NOT NULL
  AND (phase_turns >= 4 OR loss_changes >= 4
       OR (phase = 'garbage collection' AND phase_glances > 0.8 * glances))
  AND (trains OR phase = 'garbage collection')
  AND (phase_glances > glances * CASE phase WHEN 'data' THEN 0.65
                                            WHEN 'code beside the model' THEN 0.6
                                            WHEN 'garbage collection' THEN 0.35 ELSE 0.45 END
       OR (aside_glances > 0.75 * glances
           AND phase IN ('data', 'checkpoint', 'logging', 'code beside the model')))
QUALIFY row_number() OVER (PARTITION BY family ORDER BY phase_glances / glances DESC, pid) = 1
