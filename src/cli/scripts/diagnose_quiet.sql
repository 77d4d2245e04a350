-- Is there anything that stands still, so that a longer look may tell more? Of a training it takes
-- eleven looks to say that none is slow, and of one that is often met at something else.
SELECT count(*) FROM python.waits
WHERE func IS NOT NULL
  AND (((rank IS NOT NULL OR trains) AND is_main AND looks < 11)
       OR (is_main AND looks < 11 AND phase <> 'own' AND phase_glances > 0.3 * glances)
       OR (is_main AND looks < 11 AND (bad_losses > 0 OR abs(loss) > 30 * abs(first_loss)))
       OR (kind = 'running' AND is_main AND shape_ms > 800)
       OR (kind = 'running' AND is_main AND states * 3 < samples)
       OR (kind NOT IN ('running', 'sleep', 'listen', 'terminal', 'signal') AND NOT outside
           AND greatest(stalled_ms, same_ms) > 900)
       OR pid IN (SELECT pid FROM system.cpu WHERE timestamp > now() - INTERVAL 8 SECOND
                  GROUP BY pid HAVING count(*) > 1
                    AND (max(rss_mb) - min(rss_mb) > 4 OR max(threads) - min(threads) > 1
                         OR max(descriptors) - min(descriptors) > 3)))
