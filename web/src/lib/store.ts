// A value that views watch.
import { useEffect, useState } from "preact/hooks";

export class Store<T> {
  private readonly watchers = new Set<() => void>();

  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set value(next: T) {
    if (Object.is(next, this.current)) return;
    this.current = next;
    for (const watcher of [...this.watchers]) watcher();
  }

  watch(watcher: () => void): () => void {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }
}

export function useStore<T>(store: Store<T>): T {
  const [, again] = useState(0);
  const shown = store.value;
  useEffect(() => {
    let last = shown;
    const look = () => {
      if (Object.is(last, store.value)) return;
      last = store.value;
      again((n) => n + 1);
    };
    look(); // effects run after the paint: it may have changed since
    return store.watch(look);
  }, [store]);
  return shown;
}
