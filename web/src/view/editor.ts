// An editor for SQL: colours, completion of tables, columns and functions with what they mean, and
// a mark where an error is. It lives in a shadow root: there its styles are sheets of their own,
// which the page's policy permits, and not elements, which it does not.
import {
  autocompletion,
  type Completion,
  completionKeymap,
  startCompletion,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { PostgreSQL, sql } from "@codemirror/lang-sql";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { Compartment, EditorState, Prec, StateEffect, StateField } from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  drawSelection,
  EditorView,
  keymap,
  lineNumbers,
  placeholder,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";

export interface KnownColumn {
  table: string;
  column: string;
  type: string;
  unit: string | null;
  doc: string | null;
}

export interface Known {
  tables: { name: string; doc: string }[];
  columns: KnownColumn[];
  functions: { name: string; doc: string | null }[];
}

const setError = StateEffect.define<number | null>();

/** The word at which it went wrong. */
const errorMark = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, change) {
    let next = change.docChanged ? Decoration.none : marks;
    for (const effect of change.effects) {
      if (!effect.is(setError)) continue;
      const at = effect.value,
        doc = change.state.doc;
      if (at === null || at >= doc.length) {
        next = Decoration.none;
        continue;
      }
      const word = /^[\w."]+|^\S/.exec(doc.sliceString(at, Math.min(at + 60, doc.length)));
      next = Decoration.set([
        Decoration.mark({ class: "cm-wrong" }).range(
          at,
          Math.min(at + (word?.[0].length ?? 1), doc.length),
        ),
      ]);
    }
    return next;
  },
  provide: (field) => EditorView.decorations.from(field),
});

const look = EditorView.theme({
  "&": {
    fontSize: "12.5px",
    border: "1px solid var(--line)",
    borderRadius: "3px",
    background: "var(--bg)",
    color: "var(--fg)",
  },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-1px" },
  ".cm-content": {
    fontFamily: "ui-monospace, 'DejaVu Sans Mono', monospace",
    caretColor: "var(--fg)",
    minHeight: "84px",
  },
  ".cm-scroller": { maxHeight: "40vh", overflow: "auto" },
  ".cm-gutters": { background: "none", border: "none", color: "var(--dim)" },
  ".cm-cursor": { borderLeftColor: "var(--fg)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": {
    background: "color-mix(in srgb, var(--accent) 25%, transparent) !important",
  },
  ".cm-wrong": { textDecoration: "underline wavy var(--bad) 1.5px", textUnderlineOffset: "3px" },
  ".cm-tooltip": { background: "var(--bg)", border: "1px solid var(--line)", color: "var(--fg)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { background: "var(--accent)", color: "#fff" },
  ".cm-completionInfo": { maxWidth: "36em", padding: "6px 9px" },
  ".cm-completionDetail": { color: "var(--dim)", fontStyle: "normal", marginLeft: "1em" },
});

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--accent)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: tags.number, color: "var(--warn)" },
  { tag: tags.comment, color: "var(--dim)", fontStyle: "italic" },
]);

function detailOf(c: KnownColumn): string {
  return (
    c.type.toLowerCase().replace("timestamp with time zone", "timestamptz") +
    (c.unit ? `, ${c.unit}` : "")
  );
}

/** Tables with their columns, as the language's own completion wants them. */
function schemaOf(known: Known) {
  const schema: Record<string, Completion[]> = {};
  for (const t of known.tables) schema[t.name] = [];
  for (const c of known.columns)
    (schema[c.table] ??= []).push({
      label: c.column,
      type: "property",
      detail: detailOf(c),
      ...(c.doc ? { info: c.doc } : {}),
    });
  return schema;
}

/** Columns of the tables that the text names, wherever one types; and functions. */
function ownCompletions(known: Known) {
  const functions = known.functions.map((f): Completion => ({
    label: f.name,
    type: "function",
    apply: f.name + "(",
    boost: -20,
    ...(f.doc ? { info: f.doc } : {}),
  }));
  const tables = known.tables.map((t): Completion => ({
    label: t.name,
    type: "class",
    boost: 5,
    info: t.doc,
  }));
  return (context: {
    state: EditorState;
    pos: number;
    explicit: boolean;
    matchBefore(re: RegExp): { from: number; text: string } | null;
  }) => {
    const word = context.matchBefore(/[\w.]*/);
    if (!word || (!word.text && !context.explicit)) return null;
    const text = context.state.doc.toString();
    const named = new Set(known.tables.filter((t) => text.includes(t.name)).map((t) => t.name));
    const columns = known.columns
      .filter((c) => named.has(c.table))
      .map((c): Completion => ({
        label: c.column,
        type: "property",
        detail: `${c.table}, ${detailOf(c)}`,
        boost: 10,
        ...(c.doc ? { info: c.doc } : {}),
      }));
    return {
      from: word.from,
      options: [...columns, ...tables, ...functions],
      validFor: /^[\w.]*$/,
    };
  };
}

/**
 * What is typed over a selection: done here, since a browser that does it itself gives the text a
 * style of its own, which the page's policy refuses, with a report.
 */
const typeOver = EditorView.domEventHandlers({
  beforeinput(event, view) {
    if (event.inputType !== "insertText" || event.data === null || view.composing) return false;
    if (view.state.selection.main.empty) return false;
    view.dispatch(view.state.replaceSelection(event.data), {
      userEvent: "input.type",
      scrollIntoView: true,
    });
    event.preventDefault();
    return true;
  },
});

export interface Editor {
  text(): string;
  set(text: string): void;
  insert(text: string): void;
  /** Where it went wrong, in characters; null: nowhere. */
  wrong(at: number | null): void;
  know(known: Known): void;
  focus(): void;
  destroy(): void;
}

export function makeEditor(
  host: HTMLElement,
  start: string,
  run: () => void,
  changed: () => void,
): Editor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  root.replaceChildren();
  const language = new Compartment();
  const languageOf = (known: Known) => [
    sql({ dialect: PostgreSQL, schema: schemaOf(known), upperCaseKeywords: true }),
    PostgreSQL.language.data.of({ autocomplete: ownCompletions(known) }),
  ];
  let typed = false; // the last change was made by typing
  const view = new EditorView({
    parent: root,
    root,
    state: EditorState.create({
      doc: start,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        bracketMatching(),
        autocompletion({ icons: false }),
        language.of(languageOf({ tables: [], columns: [], functions: [] })),
        syntaxHighlighting(colours),
        errorMark,
        typeOver,
        look,
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": "SQL", spellcheck: "false" }),
        placeholder("SELECT …    Ctrl-Enter asks"),
        Prec.highest(
          keymap.of([
            {
              key: "Mod-Enter",
              run: () => {
                run();
                return true;
              },
            },
          ]),
        ),
        keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap, indentWithTab]),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          typed = update.transactions.some((t) => t.isUserEvent("input.type"));
          changed();
        }),
      ],
    }),
  });
  return {
    text: () => view.state.doc.toString(),
    set: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
    insert: (text) => view.dispatch(view.state.replaceSelection(text)),
    wrong: (at) => view.dispatch({ effects: setError.of(at) }),
    know: (known) => {
      view.dispatch({ effects: language.reconfigure(languageOf(known)) });
      if (typed && view.hasFocus) startCompletion(view); // who types already has waited for it
    },
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  };
}
