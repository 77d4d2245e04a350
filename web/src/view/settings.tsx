// Settings of a process or of the node; changed by who may.
import { useEffect, useRef, useState } from "preact/hooks";
import { failureFrom, getJson, may, post } from "../lib/api.ts";
import { useLinked } from "../lib/linked.ts";
import { Grid } from "./grid.tsx";
import { Panel } from "./panel.tsx";

interface Setting {
  name: string;
  value: string;
  default: string;
  doc: string;
  /** Who reads it. */
  of: "process" | "node" | "both";
}

function Value({ setting, set }: { setting: Setting; set: (value: string) => Promise<void> }) {
  const [text, setText] = useState<string | null>(null),
    [wrong, setWrong] = useState("");
  const submits = useRef(0);
  if (!may("control")) return <>{setting.value}</>;
  const submit = async (event: Event) => {
    event.preventDefault();
    if (text === null || text === setting.value) return setText(null);
    const mine = ++submits.current;
    let message = "";
    try {
      await set(text);
      setText((now) => (now === text ? null : now)); // what was typed meanwhile stays
    } catch (error) {
      message = failureFrom(error).message;
    }
    // An answer to an earlier value may come after the one to a later value.
    if (mine === submits.current) setWrong(message);
  };
  return (
    <form onSubmit={submit} class="setting">
      <input
        value={text ?? setting.value}
        aria-label={setting.name}
        size={8}
        spellcheck={false}
        onInput={(e) => setText(e.currentTarget.value)}
        onBlur={submit}
        onKeyDown={(e) => {
          if (e.key === "Escape") {
            submits.current++; // an answer that is still to come is no longer wanted
            setText(null);
            setWrong("");
          }
        }}
      />
      {wrong && (
        <span class="bad" role="alert">
          {wrong}
        </span>
      )}
    </form>
  );
}

export function Settings({ target, title }: { target?: string; title: string }) {
  const [settings, setSettings] = useState<Setting[]>([]),
    [wrong, setWrong] = useState("");
  const [filter, setFilter] = useLinked("set");
  const query = target ? `?${new URLSearchParams({ target })}` : "";
  const loads = useRef(0);
  const load = async () => {
    const mine = ++loads.current;
    let told: Setting[] | null = null,
      message = "";
    try {
      told = (await getJson<{ settings: Setting[] }>(`api/config${query}`)).settings;
    } catch (error) {
      message = failureFrom(error).message;
    }
    if (mine !== loads.current) return; // what was asked later is newer
    if (told) setSettings(told);
    setWrong(message);
  };
  useEffect(() => {
    setSettings([]);
    void load();
  }, [query]);
  const set = async (name: string, value: string) => {
    await (
      await post("api/config", { ...(target ? { target } : {}), set: { [name]: value } })
    ).text();
    await load();
  };
  const other = target ? "node" : "process";
  const shown = settings.filter(
    (s) => s.of !== other && (!filter || s.name.includes(filter) || s.doc.includes(filter)),
  );
  return (
    <Panel
      title={title}
      about={may("control") ? "" : "changing them needs scope control"}
      tools={
        <input
          type="search"
          placeholder="filter"
          aria-label="filter settings"
          value={filter}
          onInput={(e) => setFilter(e.currentTarget.value)}
        />
      }
    >
      {wrong && (
        <p class="nothing dim" role="status">
          {wrong}
        </p>
      )}
      {settings.length > 0 && (
        <Grid
          label={title}
          rows={shown}
          id={(s) => s.name}
          class={(s) => (s.value === s.default ? "" : "chosen")}
          columns={[
            { title: "name", by: (s) => s.name, show: (s) => <code>{s.name}</code> },
            {
              title: "value",
              show: (s) => <Value setting={s} set={(value) => set(s.name, value)} />,
            },
            { title: "default", show: (s) => <span class="dim">{s.default}</span> },
            { title: "what it does", wide: true, show: (s) => <span title={s.doc}>{s.doc}</span> },
          ]}
        />
      )}
    </Panel>
  );
}
