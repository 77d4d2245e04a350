// Whose rows are shown: everything, a job, or single processes.
import { change, link } from "../lib/place.ts";
import { type Job, jobsOf, nameOf, processes } from "../lib/processes.ts";
import { useStore } from "../lib/store.ts";

function keysOf(job: Job): string {
  return job.processes.map((p) => p.key).join(",");
}

export function TargetChoice() {
  const { params } = useStore(link),
    all = useStore(processes),
    value = params.p ?? "";
  const jobs = jobsOf(all),
    cut = (text: string) => (text.length > 40 ? text.slice(0, 39) + "…" : text);
  const options = jobs.flatMap((job) => {
    const single = job.processes.length === 1,
      first = job.processes[0]!;
    const ended = first.live ? "" : " (ended)";
    const whole: [string, string] = single
      ? [first.key, `${first.pid} ${cut(job.name)}${ended}`]
      : [keysOf(job), `${cut(job.name)}, ${job.processes.length} ranks${ended}`];
    return single
      ? [whole]
      : [
          whole,
          ...job.processes.map((p): [string, string] => [
            p.key,
            `    ${nameOf(p.rank, p.pid)}, ${p.pid}${p.live ? "" : " (ended)"}`,
          ]),
        ];
  });
  const known = !value || options.some(([key]) => key === value);

  return (
    <select
      class="target"
      aria-label="whose rows"
      value={value}
      onChange={(e) => change({ p: e.currentTarget.value || undefined }, true)}
    >
      <option value="">all processes</option>
      {options.map(([key, name]) => (
        <option key={key} value={key}>
          {name}
        </option>
      ))}
      {!known && (
        <option value={value}>
          {value.includes(",") ? `${value.split(",").length} processes` : cut(value)}
        </option>
      )}
    </select>
  );
}
