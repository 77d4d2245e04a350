// Light and dark: as the system has it, or as the user said here.
import { Store } from "./store.ts";

export interface Theme {
  dark: boolean;
  /** Lines that are told apart, in the order they are given out. */
  lines: string[];
}

const LIGHT = [
  "#0a63c9",
  "#c8410b",
  "#0b8457",
  "#8b3fc4",
  "#b3830a",
  "#c22a6b",
  "#0c8599",
  "#5c6370",
];
const DARK = [
  "#6cb2ff",
  "#ff9d6b",
  "#5fd3a4",
  "#cf9bff",
  "#e6c15a",
  "#ff8fbd",
  "#63d3e6",
  "#b0b6bf",
];
const KEY = "probing-theme";

function themeOf(dark: boolean): Theme {
  return { dark, lines: dark ? DARK : LIGHT };
}

const system =
  typeof matchMedia === "undefined" ? null : matchMedia("(prefers-color-scheme: dark)");

function wantsDark(): boolean {
  const said = typeof localStorage === "undefined" ? null : localStorage.getItem(KEY);
  return said ? said === "dark" : (system?.matches ?? false);
}

export const theme = new Store<Theme>(themeOf(wantsDark()));

function apply(): void {
  theme.value = themeOf(wantsDark());
  document.documentElement.classList.toggle("dark", theme.value.dark);
}

export function toggleTheme(): void {
  const next = theme.value.dark ? "light" : "dark";
  const same = (next === "dark") === (system?.matches ?? false);
  if (same) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, next);
  apply();
}

export function startTheme(): void {
  system?.addEventListener("change", apply);
  apply();
}
