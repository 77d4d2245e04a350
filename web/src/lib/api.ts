// Questions to the node. All addresses are relative to the page, so that it works below a prefix.
import type { Coverage } from "./cluster.ts";
import type { Failure, Result, Row } from "./rows.ts";
import { Store } from "./store.ts";

export type Scope = "read" | "look" | "control";

export interface Session {
  signed_in: boolean;
  asks_for_token: boolean;
  version: string;
  scope?: Scope;
  token?: string;
  reach?: string | null;
  host?: string;
  store?: string | null;
  now_ms?: number;
}

/** Is the node there? Since when not? */
export const reachable = new Store<{ since: number; why: string } | null>(null);
export const session = new Store<Session | null>(null);
/** Why the ticket or token of the address did not sign in. */
export const refused = new Store("");

export class NodeError extends Error {
  constructor(
    readonly failure: Failure,
    readonly status: number,
  ) {
    super(failure.message);
  }
}

const PAGE_HALF = "probing-page";

export function pageHalf(): string {
  return localStorage.getItem(PAGE_HALF) ?? "";
}

async function failureOf(answer: Response): Promise<NodeError> {
  let failure: Failure = {
    code: "failed",
    message: `status ${answer.status}`,
    at: null,
    nearest: "",
  };
  try {
    failure = ((await answer.json()) as { error: Failure }).error;
  } catch {
    // a proxy in between has its own pages for this
  }
  return new NodeError(failure, answer.status);
}

/** The answer, when it is one of success. Whether the node is there is noted. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (pageHalf()) headers.set("X-Probing-Page", pageHalf());
  if (init.body) headers.set("Content-Type", "application/json");
  let answer: Response;
  try {
    answer = await fetch(path, { ...init, headers, cache: "no-store", redirect: "error" });
  } catch (error) {
    if (!init.signal?.aborted && !reachable.value)
      reachable.value = { since: Date.now(), why: "the node does not answer" };
    throw error;
  }
  reachable.value = null;
  if (answer.ok) return answer;
  const failure = await failureOf(answer);
  if (answer.status === 401 && session.value?.signed_in)
    session.value = { ...session.value, signed_in: false };
  throw failure;
}

export async function getJson<T>(path: string, init: RequestInit = {}): Promise<T> {
  return (await (await request(path, init)).json()) as T;
}

export function post(path: string, body: unknown, init: RequestInit = {}): Promise<Response> {
  return request(path, { ...init, method: "POST", body: JSON.stringify(body) });
}

export async function loadSession(): Promise<void> {
  session.value = await getJson<Session>("api/session");
}

/** A ticket out of an address, or a token that somebody typed. */
export async function signIn(kind: "Ticket" | "Bearer", secret: string): Promise<void> {
  const answer = await post(
    "api/session",
    {},
    {
      headers: { Authorization: `${kind} ${secret}` },
    },
  );
  localStorage.setItem(PAGE_HALF, ((await answer.json()) as { page: string }).page);
  await loadSession();
}

export function signOut(): void {
  localStorage.removeItem(PAGE_HALF);
  session.value = session.value && { ...session.value, signed_in: false };
}

export function may(scope: Scope): boolean {
  const order: Scope[] = ["read", "look", "control"];
  const own = session.value?.scope;
  return own !== undefined && order.indexOf(own) >= order.indexOf(scope);
}

export interface Question {
  sql: string;
  target?: string;
  dead?: boolean;
  max_rows?: number;
  quiet?: boolean;
  timeout?: number;
  /** Of all nodes of the cluster; ranks: of those alone. */
  cluster?: boolean;
  ranks?: string;
}

/** Lines of text as they come. */
export async function* lines(answer: Response): AsyncGenerator<string> {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    rest += value;
    let from = 0;
    for (let end; (end = rest.indexOf("\n", from)) >= 0; from = end + 1)
      yield rest.slice(from, end);
    rest = rest.slice(from);
  }
  if (rest) yield rest;
}

interface Done {
  truncated: boolean;
  left_out?: number;
  ms: number;
  notices: string[];
  coverage?: Coverage;
}

/** Rows as they are made; `more` is called now and then with what there is so far. */
export async function ask(
  question: Question,
  signal?: AbortSignal,
  more?: (soFar: Result) => void,
): Promise<Result> {
  const at = Date.now();
  const answer = await post(
    "api/query",
    { dead: true, ...question, format: "rows" },
    { signal: signal ?? null },
  );
  const result: Result = {
    columns: [],
    rows: [],
    truncated: false,
    leftOut: null,
    ms: 0,
    notices: [],
    at,
  };
  let told = 0;
  for await (const line of lines(answer)) {
    if (line.charCodeAt(0) === 91) {
      result.rows.push(JSON.parse(line) as Row);
      if (more && (result.rows.length === 200 || Date.now() - told > 250)) {
        told = Date.now();
        more(result);
      }
      continue;
    }
    const said = JSON.parse(line) as {
      columns?: Result["columns"];
      done?: Done;
      error?: Failure;
    };
    if (said.error) throw new NodeError(said.error, 400);
    if (said.columns) {
      result.columns = said.columns;
      result.rows = [];
    }
    if (said.done)
      Object.assign(result, {
        truncated: said.done.truncated,
        ms: said.done.ms,
        leftOut: said.done.truncated ? (said.done.left_out ?? null) : 0,
        notices: said.done.notices,
        coverage: said.done.coverage,
      });
  }
  return result;
}

export function failureFrom(error: unknown): Failure {
  if (error instanceof NodeError) return error.failure;
  return { code: "unreachable", message: "the node does not answer", at: null, nearest: "" };
}
