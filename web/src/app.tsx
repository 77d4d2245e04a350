// The frame around every page: where one is, whose rows, which time, what is permitted.
import type { ComponentType } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { reachable, refused, type Session, session } from "./lib/api.ts";
import { cluster } from "./lib/cluster.ts";
import { ago } from "./lib/format.ts";
import { linkTo } from "./lib/link.ts";
import { paused } from "./lib/live.ts";
import { link } from "./lib/place.ts";
import { useStore } from "./lib/store.ts";
import { theme, toggleTheme } from "./lib/theme.ts";
import { PAGES } from "./pages/pages.ts";
import { RangeChoice } from "./view/rangechoice.tsx";
import { SignIn } from "./view/signin.tsx";
import { TargetChoice } from "./view/targetchoice.tsx";

function Navigation() {
  useStore(cluster); // which pages there are
  const here = useStore(link),
    nav = useRef<HTMLElement>(null);
  // On a narrow screen the pages are a strip: the current one is to be seen.
  useEffect(() => {
    const strip = nav.current,
      at = strip?.querySelector<HTMLElement>("[aria-current]");
    if (strip && at) strip.scrollLeft = at.offsetLeft - strip.offsetLeft - 60;
  }, [here.page]);
  return (
    <nav aria-label="pages" ref={nav}>
      {PAGES.filter((p) => !p.needs || p.needs()).map((p) => (
        <a
          key={p.name}
          href={linkTo(here, p.name)}
          title={p.about}
          aria-current={here.page === p.name ? "page" : undefined}
        >
          {p.title}
        </a>
      ))}
    </nav>
  );
}

/** The first thing that Tab leads to: past all that is the same on every page. */
function Skip() {
  const skip = () => document.getElementById("main")?.focus();
  return (
    <button type="button" class="skip" onClick={skip}>
      skip to the page
    </button>
  );
}

function Header({ who }: { who: Session }) {
  const stopped = useStore(paused),
    { dark } = useStore(theme);
  return (
    <header class="top">
      <a class="brand" href="#/" aria-label="probing: overview">
        probing
      </a>
      <span class="dim host" title={`node of version ${who.version}`}>
        {who.store ? `copy of ${who.store}` : who.host}
      </span>
      <Navigation />
      <div class="choices">
        <TargetChoice />
        <RangeChoice />
        <button
          type="button"
          aria-pressed={stopped}
          onClick={() => {
            paused.value = !stopped;
          }}
          title="stop or go on (space)"
          class="pause"
        >
          {stopped ? "paused" : "live"}
        </button>
        <span class={`scope ${who.scope}`} title={SCOPES[who.scope ?? "read"]}>
          {who.scope}
        </span>
        <button
          type="button"
          class="quiet"
          onClick={toggleTheme}
          aria-label={dark ? "light colours" : "dark colours"}
        >
          {dark ? "☀" : "☾"}
        </button>
      </div>
    </header>
  );
}

const SCOPES = {
  read: "scope read: tables and stacks, without local variables",
  look: "scope look: local variables and environments, too",
  control: "scope control: may run code and change settings",
};

/** Says that what is shown is old, while the node is not there. */
function Unreachable() {
  const gone = useStore(reachable),
    [, again] = useState(0);
  useEffect(() => {
    if (!gone) return;
    const timer = setInterval(() => again((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, [gone]);
  if (!gone) return null;
  return (
    <p class="banner" role="alert">
      {gone.why} since {ago(gone.since).replace(" ago", "")}: what is shown is from then. It is
      asked again by itself; <code>probing web</code> starts a node.
    </p>
  );
}

type Loaded = ComponentType<Record<string, never>>;

/** The page's own script comes when it is first wanted. */
function usePage(name: string): Loaded | null {
  const [page, setPage] = useState<{ name: string; view: Loaded } | null>(null);
  useEffect(() => {
    let wanted = true;
    const found = PAGES.find((p) => p.name === name) ?? PAGES[0]!;
    void found.load().then((view) => wanted && setPage({ name, view }));
    return () => {
      wanted = false;
    };
  }, [name]);
  return page?.name === name ? page.view : null;
}

function useKeys(): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (
        event.ctrlKey ||
        event.metaKey ||
        event.altKey ||
        target.isContentEditable ||
        /^(INPUT|TEXTAREA|SELECT|BUTTON)$/.test(target.tagName) ||
        target.shadowRoot
      )
        return;
      const page = PAGES[event.key === "0" ? 9 : +event.key - 1];
      if (event.key === " ") paused.value = !paused.value;
      else if (/^[0-9]$/.test(event.key) && page) location.hash = linkTo(link.value, page.name);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

export function App() {
  const who = useStore(session),
    said = useStore(refused),
    here = useStore(link),
    View = usePage(here.page);
  useKeys();
  useEffect(() => {
    const page = PAGES.find((p) => p.name === here.page) ?? PAGES[0]!;
    document.title = `${page.title} · ${who?.host ?? "probing"}`;
  }, [here.page, who?.host]);
  if (!who) return <Unreachable />;
  if (!who.signed_in) return <SignIn key={said} said={said} />;
  return (
    <>
      <Skip />
      <Header who={who} />
      <Unreachable />
      <main id="main" tabIndex={-1}>
        <h1 class="hidden">{PAGES.find((p) => p.name === here.page)?.title ?? "Overview"}</h1>
        {View ? <View /> : null}
      </main>
    </>
  );
}
