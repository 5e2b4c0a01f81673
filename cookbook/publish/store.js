// The look-up in a table that `packed` of offline.py made: what is stored where each choice has the value at this place.
function told(table, places) {
  const found = {}, base = table.digits.length, sizes = table.axes.map(([, values]) => values.length);
  const number = (text) => [...text].reduce((sum, digit) => sum * base + table.digits.indexOf(digit), 0);
  for (const [path, axes, wide, ids, codes] of table.fields) {
    const state = axes.reduce((sum, axis) => sum * sizes[axis] + places[axis], 0);
    const at = wide ? number(codes.slice(state * wide, (state + 1) * wide)) : 0;
    const id = ids.length ? ids[at] : at;
    if (!id) continue;
    const parent = path.slice(0, -1).reduce((node, key, k) => (node[key] ??= typeof path[k + 1] === "number" ? [] : {}), found);
    parent[path.at(-1)] = table.pool[id];
  }
  return found;
}
