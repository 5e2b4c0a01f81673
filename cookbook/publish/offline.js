// After the panel's own scripts: stands in for the kernel. Every answer is looked up in the table of the page.
const table = JSON.parse(document.getElementById("ck-table").textContent);

const python = (value) => (Array.isArray(value) ? `[${value.map(python).join(", ")}]` : JSON.stringify(value));

function tableModel() {
  const first = { ...Object.fromEntries(table.axes.map(([name, , place]) => [name, place])), picture: Object.keys(table.specs)[0] };
  let now = { ...first }, seq = 0, open = "", error = "", message = {};
  const listening = {}, tell = (what) => listening[what]?.forEach((each) => each());
  const shown = () => {
    const { charts, sources, ...said } = told(table, table.axes.map(([name]) => now[name]));
    const values = table.axes.map(([name, values]) => [name, values[now[name]]]);
    const { signals, columns } = charts[now.picture];
    const asked = encodeURIComponent(JSON.stringify({ ...Object.fromEntries(values), picture: now.picture }));
    message = {
      columns,
      shown: {
        name: table.name, seq, error, faulty: "", fixes: error ? ["Go on without the link"] : [], ...said, ...(error && { headline: error, facts: [], chips: [] }),
        code: `cb.panels.${table.name}(${[...Object.entries(table.kept), ...values].map(([name, value]) => `${name}=${python(value)}`).join(", ")})`,
        link: `panel=${table.name}&state=${asked}`, picture: now.picture, signals, ghost: [], off: {}, pinned: false,
        state: Object.fromEntries(Object.entries(now).map(([name, place]) => [name, { text: String(place) }])),
        open, table: null, sources: open === "sources" ? sources : null,
      },
    };
  };
  // A link names values; what this page does not have is said, and nothing changes.
  const follow = (text) => {
    let asked;
    try { asked = JSON.parse(text); } catch { asked = null; }
    const known = (name, value) => (name === "picture" ? value in table.specs : table.axes.some(([axis, values]) => axis === name && values.includes(value)));
    const strange = asked && typeof asked === "object" ? Object.keys(asked).filter((name) => !known(name, asked[name])) : ["state"];
    error = strange.length ? `This page has no ${strange.join(", ").replaceAll("_", " ")} as the link asks; open the notebook for it.` : "";
    if (error) return;
    now = { ...now, ...Object.fromEntries(table.axes.filter(([name]) => name in asked).map(([name, values]) => [name, values.indexOf(asked[name])])), picture: asked.picture ?? now.picture };
  };
  const act = {
    set({ values, seq: at }) {
      seq = at;
      error = "";
      for (const [name, place] of Object.entries(values)) now[name] = name === "picture" ? place : Number(place);
    },
    mend() { error = ""; },
    reset() { error = ""; now = { ...first }; },
    open({ what }) { open = what; },
    link({ state }) { follow(state); },
  };
  shown();
  const runtime = { get: () => "", comm_live: true, on() {}, off() {} };
  return {
    get: (name) => ({ shape: table.shape, specs: table.specs, runtime: "IPY_MODEL_none", ...message })[name],
    on(what, each) { (listening[what] ??= []).push(each); },
    off(what, each) { listening[what] = listening[what]?.filter((other) => other !== each); },
    send(asked) { act[asked.do]?.(asked); shown(); tell("change:shown"); },
    widget_manager: { get_model: async () => runtime },
  };
}

// The page's rules allow no code made from text, so Vega interprets its expressions.
globalThis.__cookbookVega = Promise.resolve((el, spec, options) => globalThis.__cookbookEmbed(el, spec, { ...options, ast: true }));
const place = document.querySelector(".ck-live"), dark = matchMedia("(prefers-color-scheme: dark)");
const themed = () => { document.body.dataset.jpThemeName = document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light"); };
new MutationObserver(themed).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
dark.addEventListener("change", themed);
themed();
await render({ model: tableModel(), el: place });
const card = document.querySelector(".ck-card");
if (card) card.hidden = true;
