// The machine: processors, memory, GPUs, disks, network; and what Probing itself costs.
import { useMemo } from "preact/hooks";
import { megabytes, milliseconds, number } from "../lib/format.ts";
import { useWatch, type Watched } from "../lib/live.ts";
import { objects } from "../lib/rows.ts";
import { byKey, byName, coloured, held, numeric } from "../lib/series.ts";
import { useStore } from "../lib/store.ts";
import { theme } from "../lib/theme.ts";
import { Chart } from "../view/chart.tsx";
import { Grid } from "../view/grid.tsx";
import { useWindow } from "../view/linechart.tsx";
import { Nothing, Panel } from "../view/panel.tsx";
import { Settings } from "../view/settings.tsx";

const T = "epoch_ms(time_bucket(INTERVAL {bucket} SECOND, timestamp)) AS t";
const MACHINE = `
SELECT ${T}, avg(user_pct) AS programs, avg(system_pct) AS kernel,
       avg(iowait_pct) AS "waits for disks", avg(memory_used_mb) AS used,
       avg(memory_total_mb) AS total, avg(swap_used_mb) AS swap
FROM system.machine WHERE {time} GROUP BY t ORDER BY t`;
const PRESSURE = `
SELECT ${T}, resource, avg(some_avg10) AS pct FROM system.pressure WHERE {time}
GROUP BY t, resource ORDER BY t`;
const PROCESSES = `
SELECT ${T}, rank, pid, avg(cpu_pct) AS cpu_pct FROM system.cpu WHERE {time}
GROUP BY t, rank, pid ORDER BY t`;
const GPU = `
SELECT ${T}, device, avg(gpu_util) AS gpu_util, avg(memory_used_mb) AS memory_mb,
       avg(power_w) AS power_w, max(temperature_c) AS temperature_c
FROM gpu.utilization WHERE {time} GROUP BY t, device ORDER BY t`;
const DISK = `
SELECT ${T}, device, avg(read_mb_s) AS read, avg(write_mb_s) AS write, avg(util_pct) AS util
FROM system.disk WHERE {time} GROUP BY t, device ORDER BY t`;
const NET = `
SELECT ${T}, interface, avg(rx_mb_s) AS received, avg(tx_mb_s) AS sent
FROM system.net WHERE {time} AND interface <> 'lo' GROUP BY t, interface ORDER BY t`;
const COST = `
SELECT what, sum(cpu_ms) AS cpu_ms, sum(rss_mb) AS rss_mb, sum(bytes) AS bytes, sum(rows) AS rows,
       sum(queries) AS queries
FROM probing.cost GROUP BY what ORDER BY cpu_ms DESC NULLS LAST`;

/** Columns of a query as lines. */
function ColumnsPanel({
  title,
  about,
  of,
  unit,
  names,
  stacked,
  zero = true,
}: {
  title: string;
  about?: string;
  of: Watched;
  unit: string;
  names: string[];
  stacked?: boolean;
  zero?: boolean;
}) {
  const { lines: colours } = useStore(theme);
  const { x, lines } = useMemo(() => {
    const at = names.map((name) => of.result.columns.findIndex((c) => c.name === name));
    const x = of.result.rows.map((row) => row[0] as number);
    const lines = names
      .map((name, k) => ({
        name,
        colour: colours[k]!,
        stacked: stacked ?? false,
        values: of.result.rows.map((row) => numeric(row[at[k]!])),
      }))
      .filter((line) => line.values.some((v) => typeof v === "number"));
    return { x, lines };
  }, [of.result, colours]);
  const window = useWindow(of.result.at, x);
  return (
    <Panel title={title} about={about} of={of}>
      {lines.length ? (
        <Chart x={x} lines={lines} unit={unit} label={title} window={window} zero={zero} />
      ) : (
        <Nothing of={of} what="Nothing was measured in this time." />
      )}
    </Panel>
  );
}

/** One line for each device. */
function DevicesPanel({
  title,
  about,
  of,
  unit,
  key_,
  value,
  name,
  nothing,
  holds,
}: {
  title: string;
  about?: string;
  of: Watched;
  unit: string;
  key_: string[];
  value: string;
  name: (cells: (string | number | boolean | null)[]) => string;
  nothing: string;
  /** The table has a row only when something changes. */
  holds?: boolean;
}) {
  const { lines: colours } = useStore(theme);
  const series = useMemo(() => {
    const found = byKey(of.result, key_, value, name);
    found.lines.sort(byName); // a line's colour does not depend on who was measured first
    return holds ? held(found) : found;
  }, [of.result, value, holds]);
  const lines = useMemo(() => coloured(series.lines, colours), [series, colours]);
  const window = useWindow(of.result.at, series.x);
  return (
    <Panel title={title} about={about} of={of}>
      {lines.length ? (
        <Chart
          x={series.x}
          lines={lines}
          unit={unit}
          label={title}
          window={window}
          holds={holds ?? false}
          zero
        />
      ) : (
        <Nothing of={of} what={nothing} />
      )}
    </Panel>
  );
}

interface Cost {
  what: string;
  cpu_ms: number | null;
  rss_mb: number | null;
  bytes: number | null;
  rows: number | null;
  queries: number | null;
}

function CostPanel() {
  const of = useWatch({ sql: COST, every: 5 }),
    rows = objects<Cost>(of.result);
  return (
    <Panel title="What Probing itself costs" about="since each part began" of={of}>
      {rows.length ? (
        <Grid
          label="cost"
          rows={rows}
          id={(r) => r.what}
          columns={[
            { title: "part", by: (r) => r.what, show: (r) => r.what },
            {
              title: "CPU time",
              number: true,
              by: (r) => r.cpu_ms,
              show: (r) => (r.cpu_ms === null ? "" : milliseconds(r.cpu_ms)),
            },
            {
              title: "memory",
              number: true,
              by: (r) => r.rss_mb,
              show: (r) => (r.rss_mb === null ? "" : megabytes(r.rss_mb)),
            },
            {
              title: "bytes",
              number: true,
              by: (r) => r.bytes,
              show: (r) => (r.bytes === null ? "" : megabytes(r.bytes / 1048576)),
            },
            { title: "rows", number: true, by: (r) => r.rows, show: (r) => number(r.rows) },
            {
              title: "queries",
              number: true,
              by: (r) => r.queries,
              show: (r) => number(r.queries),
            },
          ]}
        />
      ) : (
        <Nothing of={of} what="Not known." />
      )}
    </Panel>
  );
}

export function System() {
  const machine = useWatch({ sql: MACHINE }),
    gpu = useWatch({ sql: GPU });
  const disk = useWatch({ sql: DISK }),
    net = useWatch({ sql: NET });
  const device = ([n]: (string | number | boolean | null)[]) => String(n);
  const onGpu = gpu.result.rows.length > 0;
  const gpus = { of: gpu, key_: ["device"], name: ([n]: unknown[]) => `GPU ${n}`, nothing: "" };
  return (
    <>
      <div class="columns two">
        <ColumnsPanel
          title="Processors"
          about="share of all of them"
          of={machine}
          unit="%"
          stacked
          names={["programs", "kernel", "waits for disks"]}
        />
        <ColumnsPanel
          title="Main memory"
          of={machine}
          unit="MB"
          names={["used", "total", "swap"]}
        />
        <DevicesPanel
          title="CPU of Python processes"
          about="100 % is one core"
          unit="%"
          of={useWatch({ sql: PROCESSES })}
          key_={["rank", "pid"]}
          value="cpu_pct"
          name={([rank, pid]) => (rank === null ? `pid ${pid}` : `rank ${rank} (${pid})`)}
          nothing="Nothing was measured in this time."
        />
        <DevicesPanel
          title="Waiting for processors, memory, disks"
          unit="%"
          about="share of the time in which something waited"
          of={useWatch({ sql: PRESSURE })}
          key_={["resource"]}
          value="pct"
          holds
          name={device}
          nothing="Nothing waited, or the kernel does not tell."
        />
      </div>
      {onGpu ? (
        <div class="columns two">
          <DevicesPanel
            {...gpus}
            title="GPUs in use"
            about="time in which any kernel ran"
            unit="%"
            value="gpu_util"
          />
          <DevicesPanel {...gpus} title="GPU memory" unit="MB" value="memory_mb" />
          <DevicesPanel {...gpus} title="GPU power" unit="W" value="power_w" />
          <DevicesPanel {...gpus} title="GPU temperature" unit="C" value="temperature_c" />
        </div>
      ) : (
        <Panel title="GPUs" of={gpu}>
          <Nothing of={gpu} what="No GPU was seen in this time." />
        </Panel>
      )}
      <div class="columns two">
        <DevicesPanel
          title="Read from disks"
          of={disk}
          unit="MB/s"
          key_={["device"]}
          value="read"
          name={device}
          nothing="No disk was used in this time."
        />
        <DevicesPanel
          title="Written to disks"
          of={disk}
          unit="MB/s"
          key_={["device"]}
          value="write"
          name={device}
          nothing="No disk was used in this time."
        />
        <DevicesPanel
          title="Received from the network"
          of={net}
          unit="MB/s"
          key_={["interface"]}
          value="received"
          name={device}
          nothing="No network was used in this time."
        />
        <DevicesPanel
          title="Sent to the network"
          of={net}
          unit="MB/s"
          key_={["interface"]}
          value="sent"
          name={device}
          nothing="No network was used in this time."
        />
      </div>
      <CostPanel />
      <Settings title="Settings of the node" />
    </>
  );
}
