/** Collects what comes in one turn, and hands it on together, in its order. */
export function coalesce<Item>(handOn: (items: readonly Item[]) => void): (item: Item) => void {
  let items: Item[] = [];
  return (item) => {
    if (items.length === 0) {
      queueMicrotask(() => {
        const all = items;
        items = [];
        handOn(all);
      });
    }
    items.push(item);
  };
}
