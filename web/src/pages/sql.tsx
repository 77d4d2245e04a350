// Any question: an editor that knows the tables; the answer as a table, a chart or a file.
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, failureFrom, post, type Question } from "../lib/api.ts";
import { type Bulk, askBulk, characterAt, sortedSql } from "../lib/bulk.ts";
import { cluster, coverageText, isPartial } from "../lib/cluster.ts";
import { counted, milliseconds, number } from "../lib/format.ts";
import { formatOrder, type Order, parseOrder } from "../lib/linked.ts";
import { change, link } from "../lib/place.ts";
import { type Failure, objects } from "../lib/rows.ts";
import { commandLine } from "../lib/sql.ts";
import { useStore } from "../lib/store.ts";
import type { Editor, Known, KnownColumn } from "../view/editor.ts";
import { ResultTable } from "../view/result.tsx";
import { ResultChart } from "../view/resultchart.tsx";

const START = `SELECT rank, pid, count(*) AS steps, median(step_ms) AS step_ms
FROM python.training_logs
WHERE timestamp > now() - INTERVAL 10 MINUTE
GROUP BY rank, pid ORDER BY rank`;
const LIMITS = [5000, 100000, 1000000];
const HISTORY = "probing-sql",
  HISTORY_MAX = 50;

function remembered(): string[] {
  try {
    return JSON.parse(localStorage.getItem(HISTORY) ?? "[]") as string[];
  } catch {
    return [];
  }
}

function remember(sql: string): void {
  const list = [sql, ...remembered().filter((s) => s !== sql)].slice(0, HISTORY_MAX);
  localStorage.setItem(HISTORY, JSON.stringify(list));
}

interface TableRow {
  name: string;
  source: string;
  rows: number | null;
  doc: string;
}

const AGAIN_MS = 3000;

/** What can be asked for: tables, columns and functions. */
async function learn(signal: AbortSignal): Promise<{ known: Known; tables: TableRow[] }> {
  const [tables, columns, functions] = await Promise.all([
    ask({ sql: "SELECT name, source, rows, doc FROM probing.tables ORDER BY name" }, signal),
    ask(
      {
        sql:
          'SELECT name AS "table", "column", type, unit, doc FROM probing.columns ' +
          "ORDER BY name, position",
      },
      signal,
    ),
    ask(
      {
        sql:
          "SELECT function_name AS name, any_value(description) AS doc FROM " +
          "duckdb_functions() WHERE function_name NOT LIKE '%!__%' ESCAPE '!' AND " +
          "regexp_matches(function_name, '^[a-z]') GROUP BY 1 ORDER BY 1",
      },
      signal,
    ),
  ]);
  const list = objects<TableRow>(tables);
  return {
    tables: list,
    known: {
      tables: list.map(({ name, doc }) => ({ name, doc })),
      columns: objects<KnownColumn>(columns),
      functions: objects<{ name: string; doc: string | null }>(functions),
    },
  };
}

/** Asked once, and again where a busy node did not answer. */
function useKnown(): { known: Known; tables: TableRow[] } {
  const [state, setState] = useState<{ known: Known; tables: TableRow[] }>({
    known: { tables: [], columns: [], functions: [] },
    tables: [],
  });
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    const look = () => {
      learn(abort.signal).then(setState, () => {
        if (!abort.signal.aborted) timer = setTimeout(look, AGAIN_MS) as unknown as number;
      });
    };
    look();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, []);
  return state;
}

function Tables({
  tables,
  known,
  insert,
}: {
  tables: TableRow[];
  known: Known;
  insert: (text: string) => void;
}) {
  const [open, setOpen] = useState(""),
    [filter, setFilter] = useState("");
  const shown = tables.filter(
    (t) =>
      !filter ||
      t.name.includes(filter) ||
      known.columns.some((c) => c.table === t.name && c.column.includes(filter)),
  );
  return (
    <aside class="tables" aria-label="tables">
      <input
        type="search"
        placeholder="find a table or column"
        value={filter}
        aria-label="find a table or column"
        onInput={(e) => setFilter(e.currentTarget.value)}
      />
      <ul>
        {shown.map((t) => (
          <li key={t.name}>
            <button
              type="button"
              class="plain"
              aria-expanded={open === t.name}
              title={t.doc}
              onClick={() => setOpen(open === t.name ? "" : t.name)}
            >
              {t.name}
            </button>
            <span class="dim"> {t.rows === null ? t.source : number(t.rows)}</span>
            {open === t.name && (
              <div class="columns-of">
                <p class="dim">{t.doc}</p>
                <button type="button" onClick={() => insert(`SELECT * FROM ${t.name} LIMIT 100`)}>
                  ask for it
                </button>
                <dl>
                  {known.columns
                    .filter((c) => c.table === t.name)
                    .map((c) => (
                      <div key={c.column}>
                        <dt>{c.column}</dt>
                        <dd class="dim">
                          {c.type.replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ").toLowerCase()}
                          {c.unit ? `, ${c.unit}` : ""} {c.doc}
                        </dd>
                      </div>
                    ))}
                </dl>
              </div>
            )}
          </li>
        ))}
      </ul>
    </aside>
  );
}

async function download(sql: string, of: Partial<Question>, format: string): Promise<void> {
  const answer = await post("api/query", { sql, format, dead: true, ...of });
  const address = URL.createObjectURL(await answer.blob());
  const a = document.createElement("a");
  a.href = address;
  a.download = `probing.${format}`;
  a.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

export function Sql() {
  const { params } = useStore(link),
    target = params.p ?? "",
    attached = useStore(cluster)?.attached ?? false;
  // All machines: where no process was chosen, as these are of this machine.
  const everywhere = attached && !target && params.all === "1";
  const of: Partial<Question> = everywhere ? { cluster: true } : target ? { target } : {},
    where = everywhere ? "cluster" : target;
  const [bulk, setBulk] = useState<Bulk | null>(null),
    [version, setVersion] = useState(0);
  const [failure, setFailure] = useState<Failure | null>(null),
    [busy, setBusy] = useState(false);
  const [plan, setPlan] = useState(""),
    [asked, setAsked] = useState("");
  const sort = parseOrder(params.o ?? "");
  const [said, setSaid] = useState(""),
    [past, setPast] = useState<string[] | null>(null);
  const host = useRef<HTMLDivElement>(null),
    editor = useRef<Editor | null>(null);
  const running = useRef<AbortController | null>(null),
    { known, tables } = useKnown();
  const limit = LIMITS.includes(+(params.n ?? "")) ? +params.n! : LIMITS[0]!;
  const latest = useRef<(order?: Order | null) => void>(() => {});

  const text = () => editor.current?.text() ?? params.q ?? START;
  const run = async (order: Order | null = null, most = limit) => {
    const sql = text();
    running.current?.abort();
    const abort = (running.current = new AbortController());
    setFailure(null);
    setPlan("");
    setBusy(true);
    setSaid("");
    change({ q: sql, o: formatOrder(order) });
    remember(sql);
    const wanted = order ? sortedSql(sql, order.column, order.down) : sql;
    setAsked(wanted);
    try {
      const whole = await askBulk(
        { sql: wanted, max_rows: most, ...of },
        abort.signal,
        (soFar) => {
          setBulk(soFar);
          setVersion((v) => v + 1);
        },
      );
      setBulk(whole);
      setVersion((v) => v + 1);
      editor.current?.wrong(null);
    } catch (error) {
      if (abort.signal.aborted) return;
      const why = failureFrom(error);
      setFailure(why);
      editor.current?.wrong(why.at === null || order ? null : characterAt(sql, why.at));
    }
    setBusy(false);
  };
  latest.current = (order) => void run(order ?? null);

  useEffect(() => {
    let gone = false;
    void import("../view/editor.ts").then(({ makeEditor }) => {
      if (gone || !host.current) return;
      editor.current = makeEditor(
        host.current,
        params.q ?? START,
        () => latest.current(),
        () => {},
      );
      editor.current.know(known);
      editor.current.focus();
      if (params.q) latest.current(sort);
    });
    return () => {
      gone = true;
      running.current?.abort();
      editor.current?.destroy();
      editor.current = null;
    };
  }, []);
  useEffect(() => editor.current?.know(known), [known]);
  useEffect(() => {
    // Another link to this page, or "back".
    if (params.q && editor.current && params.q !== editor.current.text()) {
      editor.current.set(params.q);
      latest.current(sort);
    }
  }, [params.q]);

  const explain = async () => {
    setFailure(null);
    try {
      const answer = await ask({ sql: `EXPLAIN ANALYZE ${text()}`, ...(target ? { target } : {}) });
      setPlan(answer.rows.map((r) => String(r[1])).join("\n"));
    } catch (error) {
      setFailure(failureFrom(error));
    }
  };
  const stop = () => {
    running.current?.abort();
    setBusy(false);
    setSaid("stopped");
  };
  const chart = params.view === "chart";
  const all = bulk ? (bulk.done ? bulk.all : null) : null;
  return (
    <div class="sql">
      <Tables
        tables={tables}
        known={known}
        insert={(sql) => {
          editor.current?.set(sql);
          latest.current();
        }}
      />
      <div class="sql-main">
        <div ref={host} class="editor" />
        <div class="row">
          {busy ? (
            <button type="button" onClick={stop}>
              stop
            </button>
          ) : (
            <button type="button" class="main" onClick={() => run()}>
              ask
            </button>
          )}
          <button type="button" onClick={explain}>
            plan
          </button>
          <button
            type="button"
            aria-expanded={past !== null}
            onClick={() => setPast(past ? null : remembered())}
          >
            history
          </button>
          <button
            type="button"
            onClick={async () => {
              await navigator.clipboard.writeText(commandLine(text(), where)).then(
                () => setSaid("copied"),
                () => setSaid(commandLine(text(), where)),
              );
            }}
          >
            copy as command line
          </button>
          <span class="push" />
          {attached && !target && (
            <select
              aria-label="which machines"
              value={everywhere ? "all" : "this"}
              onChange={(e) => change({ all: e.currentTarget.value === "all" ? "1" : undefined })}
            >
              <option value="this">this machine</option>
              <option value="all">all machines</option>
            </select>
          )}
          <label class="dim">
            at most{" "}
            <select
              value={limit}
              onChange={(e) => {
                const most = +e.currentTarget.value;
                change({ n: most === LIMITS[0] ? undefined : String(most) });
                if (bulk) void run(sort, most);
              }}
            >
              {LIMITS.map((n) => (
                <option key={n} value={n}>
                  {number(n)}
                </option>
              ))}
            </select>{" "}
            rows
          </label>
          <select
            aria-label="save all rows as"
            value=""
            onChange={async (e) => {
              const format = e.currentTarget.value;
              e.currentTarget.value = "";
              try {
                await download(asked || text(), of, format);
              } catch (error) {
                setFailure(failureFrom(error));
              }
            }}
          >
            <option value="">save all as …</option>
            <option value="csv">CSV</option>
            <option value="parquet">Parquet</option>
            <option value="json">JSON</option>
          </select>
        </div>
        {past && (
          <ul class="past">
            {past.length ? (
              past.map((sql) => (
                <li key={sql}>
                  <button
                    type="button"
                    class="plain mono"
                    onClick={() => {
                      editor.current?.set(sql);
                      setPast(null);
                      latest.current();
                    }}
                  >
                    {sql.replace(/\s+/g, " ").slice(0, 160)}
                  </button>
                </li>
              ))
            ) : (
              <li class="dim">nothing yet</li>
            )}
          </ul>
        )}
        {failure && (
          <p class="bad" role="alert">
            {failure.message}
            {failure.nearest && !failure.message.includes(failure.nearest)
              ? `; nearest: ${failure.nearest}`
              : ""}
          </p>
        )}
        {plan && (
          <pre class="plan" tabIndex={0}>
            {plan}
          </pre>
        )}
        {bulk && !plan && (
          <>
            <div class="row" role="status" data-asked={asked}>
              <span>
                {busy
                  ? `${number(bulk.length)} rows so far …`
                  : `${counted(bulk.length, all)} rows in ${milliseconds(bulk.ms)}`}
              </span>
              {bulk.truncated && <span class="dim">cut off at the limit</span>}
              {bulk.coverage && (
                <span class={isPartial(bulk.coverage) ? "bad" : "dim"}>
                  {coverageText(bulk.coverage)}
                </span>
              )}
              <span class="dim">{said}</span>
              <span class="push" />
              <button
                type="button"
                aria-pressed={!chart}
                onClick={() => change({ view: undefined })}
              >
                table
              </button>
              <button type="button" aria-pressed={chart} onClick={() => change({ view: "chart" })}>
                chart
              </button>
            </div>
            {bulk.notices.map((line) => (
              <p key={line} class="dim">
                {line}
              </p>
            ))}
            {chart ? (
              <ResultChart bulk={bulk} version={version} />
            ) : (
              bulk.length > 0 && (
                <ResultTable
                  bulk={bulk}
                  version={version}
                  sort={sort}
                  onSort={(column) =>
                    void run({ column, down: sort?.column === column ? !sort.down : true })
                  }
                />
              )
            )}
          </>
        )}
      </div>
    </div>
  );
}
