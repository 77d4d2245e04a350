// Every page: one file, and one line here. A page's script is loaded when it is first shown.
import type { ComponentType } from "preact";
import { cluster } from "../lib/cluster.ts";

export interface Page {
  name: string;
  title: string;
  about: string;
  load: () => Promise<ComponentType<Record<string, never>>>;
  /** Is there any use in showing it? */
  needs?: () => boolean;
}

export const PAGES: Page[] = [
  {
    name: "overview",
    title: "Overview",
    about: "jobs and ranks, and what changed lately",
    load: async () => (await import("./overview.tsx")).Overview,
  },
  {
    name: "process",
    title: "Process",
    about: "threads, stacks with variables, who holds the GIL, settings",
    load: async () => (await import("./process.tsx")).Process,
  },
  {
    name: "training",
    title: "Training",
    about: "loss, pace, and what steps spend their time on",
    load: async () => (await import("./training.tsx")).Training,
  },
  {
    name: "modules",
    title: "Modules",
    about: "time and memory of the model's modules",
    load: async () => (await import("./modules.tsx")).Modules,
  },
  {
    name: "flame",
    title: "Flame",
    about: "where the time went, and how that differs from before or from other ranks",
    load: async () => (await import("./flame.tsx")).Flame,
  },
  {
    name: "communication",
    title: "Communication",
    about: "operations between ranks, hung ones, who keeps the others waiting",
    load: async () => (await import("./communication.tsx")).Communication,
  },
  {
    name: "memory",
    title: "Memory",
    about: "resident, Python's own, tensors, GPU; and what grows",
    load: async () => (await import("./memory.tsx")).Memory,
  },
  {
    name: "sql",
    title: "SQL",
    about: "any question, with completion, as a table, a chart or a file",
    load: async () => (await import("./sql.tsx")).Sql,
  },
  {
    name: "console",
    title: "Console",
    about: "Python inside a process, and what was run there",
    load: async () => (await import("./console.tsx")).Console,
  },
  {
    name: "system",
    title: "System",
    about: "processors, memory, GPUs, disks, network, and what Probing costs",
    load: async () => (await import("./system.tsx")).System,
  },
  {
    name: "cluster",
    title: "Cluster",
    about: "all machines of a job: who is there, and where all ranks are",
    load: async () => (await import("./cluster.tsx")).Cluster,
    needs: () => cluster.value?.attached ?? false,
  },
];
