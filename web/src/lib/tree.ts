// Dotted names of modules as a tree.

export interface Branch<T> {
  /** The whole name. */
  name: string;
  /** Its last part, or several where there is nothing in between. */
  label: string;
  depth: number;
  value: T | null;
  children: Branch<T>[];
}

/** Rows in the order of the tree. `nameOf` gives the dotted name; "" is the root itself. */
export function treeOf<T>(rows: T[], nameOf: (row: T) => string): Branch<T>[] {
  const top: Branch<T>[] = [],
    known = new Map<string, Branch<T>>();
  const find = (name: string): Branch<T> => {
    const there = known.get(name);
    if (there) return there;
    const cut = name.lastIndexOf(".");
    const parent = cut < 0 ? null : find(name.slice(0, cut));
    const made: Branch<T> = {
      name,
      label: cut < 0 ? name : name.slice(cut + 1),
      depth: parent ? parent.depth + 1 : 0,
      value: null,
      children: [],
    };
    known.set(name, made);
    (parent ? parent.children : top).push(made);
    return made;
  };
  for (const row of rows) find(nameOf(row)).value = row;
  return top.flatMap(squeeze);
}

/** A container that was never called itself and has one child is shown in one line with it. */
function squeeze<T>(branch: Branch<T>): Branch<T>[] {
  const children = branch.children.flatMap(squeeze);
  if (branch.value === null && children.length === 1) {
    const only = children[0]!;
    return [lift({ ...only, label: `${branch.label}.${only.label}` }, branch.depth)];
  }
  return [{ ...branch, children }];
}

function lift<T>(branch: Branch<T>, depth: number): Branch<T> {
  return { ...branch, depth, children: branch.children.map((c) => lift(c, depth + 1)) };
}

/** What is open, as lines. */
export function visible<T>(branches: Branch<T>[], isOpen: (b: Branch<T>) => boolean): Branch<T>[] {
  return branches.flatMap((b) => [b, ...(isOpen(b) ? visible(b.children, isOpen) : [])]);
}
