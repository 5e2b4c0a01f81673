// Shared by LiveChart and the panels, after fit.js: one Vega runtime per page, charts that repaint without being rebuilt.
const CANVAS_ABOVE = 2000;
const OVERDUE = 3000; // milliseconds that an answer may take before the app is asked whether its process still stands
const MISSING = "The chart library did not arrive. Run all cells again; if that does not help, reinstall the package.";
const KERNEL_STOPPED = globalThis.document?.body?.dataset.voila
  ? "The process of this page has stopped: memory was exhausted, nobody was connected to it for long, or the app was ended. Copy the link, then reload the page; until then, controls do nothing."
  : "Kernel stopped: run all cells again; until then, controls do nothing.";

async function runtimeModel(model) {
  return model.widget_manager.get_model(model.get("runtime").slice("IPY_MODEL_".length));
}

function readVega(host) {
  if (!globalThis.__cookbookVega) {
    const source = host.get("source");
    if (!source) throw new Error(MISSING);
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    globalThis.__cookbookVega = import(/* webpackIgnore: true */ url).then((module) => module.default);
  }
  return globalThis.__cookbookVega;
}

async function vegaEmbed(model) {
  return globalThis.__cookbookVega ?? readVega(await runtimeModel(model));
}

// Many numbers arrive as 32-bit floats, which may start anywhere in their message.
function listOf(column) {
  if (!(column instanceof DataView)) return column ?? [];
  return new Float32Array(column.buffer.slice(column.byteOffset, column.byteOffset + column.byteLength));
}

// Whether columns that arrived again say what is drawn: then no chart need be laid out anew.
function alike(one, other) {
  if (one === other) return true;
  const packed = (columns) => Object.values(columns).some((column) => column instanceof DataView);
  return !packed(one) && !packed(other) && JSON.stringify(one) === JSON.stringify(other);
}

function toRows(columns) {
  const names = Object.keys(columns), lists = names.map((name) => listOf(columns[name]));
  const rows = Array.from({ length: lists[0]?.length ?? 0 }, () => ({}));
  names.forEach((name, k) => { const list = lists[k]; for (let i = 0; i < rows.length; i++) rows[i][name] = list[i]; });
  return rows;
}

// JupyterLab's colours at this moment; the fallbacks serve pages without JupyterLab.
function lookOf(el) {
  const style = getComputedStyle(el);
  const value = (name, other) => style.getPropertyValue(name).trim() || other;
  return {
    ink: value("--jp-ui-font-color1", "#212121"), muted: value("--jp-ui-font-color2", "#616161"),
    paper: value("--jp-layout-color0", "#ffffff"), grid: value("--jp-border-color2", "#e0e0e0"),
    font: value("--jp-ui-font-family", "sans-serif"),
  };
}

function recolour(spec, look) {
  const swap = { "#000000": look.ink, "#616161": look.muted, "#ffffff": look.paper, "#e0e0e0": look.grid };
  const walk = (x) => {
    if (typeof x === "string") return swap[x] ?? x;
    if (Array.isArray(x)) return x.map(walk);
    if (x && typeof x === "object") return Object.fromEntries(Object.entries(x).map(([k, v]) => [k, walk(v)]));
    return x;
  };
  const out = walk(spec);
  out.config = { ...out.config, font: look.font, background: look.paper };
  return out;
}

// Draws `state()` = {spec, columns, signals} in `el`; the returned handle repaints, redraws and disposes.
// `picked` is called with the datum of a mark that was clicked.
async function mountChart(model, el, state, picked = () => {}) {
  const embed = await vegaEmbed(model);
  let api = null, drawn = null, wanted = false, running = false, disposed = false;
  const width = () => Math.max(LEAST, Math.floor(el.clientWidth) || 640);
  const inner = (spec) => width() - (spec.padding?.left ?? 5) - (spec.padding?.right ?? 5);
  const layoutNow = (look) => layoutOf(state(), inner(state().spec), look.font, drawn?.spec === state().spec && drawn.width === width() ? drawn.layout : null);
  const signalsOf = ({ spec, signals }, look, layout) => {
    const out = { ...signals };
    for (const { name } of spec.params ?? []) if (["narrow", "over"].includes(name)) out[name] = layout[name];
    if ("live_title" in out) out.live_title = wrap(out.live_title, layout.width, look.font, BOLD);
    return out;
  };
  const build = (look, layout) => {
    const { spec, columns } = state();
    const own = laidOut(recolour(structuredClone(spec), look), layout);
    const ready = signalsOf(state(), look, layout);
    own.datasets = { ...own.datasets, live: toRows(columns) };
    own.params = (own.params ?? []).map((p) => (p.name in ready ? { ...p, value: ready[p.name] } : p));
    return own;
  };
  const draw = async () => {
    const look = lookOf(el), layout = layoutNow(look);
    const own = build(look, layout);
    const renderer = own.datasets.live.length > CANVAS_ABOVE ? "canvas" : "svg";
    const patch = (compiled) => axesWrapped(compiled, layout, look.font);
    const next = await embed(el, own, { renderer, patch, actions: false, tooltip: { theme: "custom" }, loader: { target: "_blank", rel: "noopener" } });
    if (disposed) return next.finalize();
    api?.finalize();
    api = next;
    if (own.height) el.style.height = `${own.height + (own.padding?.top ?? 5) + (own.padding?.bottom ?? 5)}px`;
    drawn = { look, layout, renderer, width: width(), spec: state().spec, columns: state().columns, signals: {} };
    api.view.addEventListener("click", (_, item) => { if (item?.datum) picked(item.datum); });
    named();
  };
  // One image with a description: Vega gives its groups the role of an image without a name.
  const named = () => {
    const picture = el.querySelector("svg, canvas");
    picture?.setAttribute("role", "img");
    picture?.setAttribute("aria-label", [state().spec.description].flat().join(" "));
    for (const mark of picture?.querySelectorAll("[role^=graphics]:not([aria-label])") ?? []) { mark.removeAttribute("role"); mark.removeAttribute("aria-roledescription"); }
  };
  const repaint = async () => {
    const { spec, columns } = state();
    const many = listOf(Object.values(columns)[0]).length > CANVAS_ABOVE;
    if (!api || spec !== drawn.spec || (many && drawn.renderer === "svg")) return draw();
    if (JSON.stringify(layoutNow(drawn.look)) !== JSON.stringify(drawn.layout)) return draw();
    for (const [name, value] of Object.entries(signalsOf(state(), drawn.look, drawn.layout))) {
      const text = JSON.stringify(value);  // a list that arrives again is no change
      if (text !== drawn.signals[name]) api.view.signal(name, value);
      drawn.signals[name] = text;
    }
    if (!alike(columns, drawn.columns)) api.view.data("live", toRows(columns));
    drawn.columns = columns;
    await api.view.runAsync();
    named();
  };
  // One repaint at a time; whatever changed meanwhile is drawn once, with the last value.
  const update = async () => {
    wanted = true;
    if (running) return;
    running = true;
    try { while (wanted && !disposed) { wanted = false; await repaint(); } } finally { running = false; }
  };
  await update();
  // Another width or another theme: drawn anew, since title and legend are laid out once.
  let later = 0;
  const check = () => {
    clearTimeout(later);
    later = setTimeout(() => {
      const moved = Math.abs(width() - drawn.width) > 1 || JSON.stringify(lookOf(el)) !== JSON.stringify(drawn.look);
      if (!disposed && moved) { drawn.spec = null; update(); }
    }, 150);
  };
  const sizes = new ResizeObserver(check);
  sizes.observe(el);
  const themes = new MutationObserver(check);
  themes.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-name", "data-jp-theme-light"] });
  return {
    update,
    png: () => api.view.toImageURL("png", 2),
    dispose() { disposed = true; sizes.disconnect(); themes.disconnect(); clearTimeout(later); api?.finalize(); },
  };
}

// Calls `tell(true)` when the kernel behind the widget is gone, and `tell(false)` when it is back.
async function watchKernel(model, tell) {
  const host = await runtimeModel(model);
  const look = () => tell(!host.comm_live);
  host.on("comm_live_update", look);
  look();
  return () => host.off("comm_live_update", look);
}

// In the app, a page that lost its connection is not told why. While an answer is overdue, the app is asked whether it
// still has the process of this page: `tell(true)` when not, or not reached, and `tell(false)` when it has it again.
function watchAnswers(tell) {
  let timer = 0, waits = false, gone = false;
  const again = () => { timer = waits || gone ? setTimeout(ask, OVERDUE) : 0; };
  const ask = async () => {
    const lost = !(await processStands());
    if (lost !== gone && (waits || gone)) tell(gone = lost);
    again();
  };
  return (now) => { waits = now && Boolean(document.body.dataset.voila); if (!timer) again(); };
}

async function processStands() {
  const { baseUrl, kernelId } = JSON.parse(document.getElementById("jupyter-config-data").textContent);
  try { return (await fetch(`${baseUrl}api/kernels/${kernelId}`)).ok; } catch { return false; }
}

// JupyterLab would otherwise take arrow keys and letters typed here as its own commands.
function keepKeys(el) {
  el.addEventListener("keydown", (e) => { if (!e.ctrlKey && !e.metaKey) e.stopPropagation(); });
}

function download(name, url) {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}
