// A panel: answer, controls, picture, parts, tools. It holds no physics; every number comes from the kernel.
const SLOW = 200;
const ASTRAY = 4000; // milliseconds that cells which run one after the other have, before a link is said to have found no panel

// Values go out one message at a time; what changes meanwhile goes out once, with the last value.
function outbox(post, busy, settled) {
  let waiting = {}, flying = null, seq = 0, timer = 0;
  const sent = {};
  const flush = () => {
    if (flying !== null || !Object.keys(waiting).length) return;
    flying = ++seq;
    settled(false);
    for (const name of Object.keys(waiting)) sent[name] = seq;
    const values = waiting;
    waiting = {};
    timer = setTimeout(() => busy(true), SLOW);
    post({ do: "set", values, seq });
  };
  return {
    put(name, raw) { waiting[name] = raw; flush(); },
    settled(name, at) { return !(name in waiting) && (sent[name] ?? 0) <= at; },
    arrived(at) {
      if (flying !== null && at >= flying) { flying = null; clearTimeout(timer); busy(false); }
      flush();
      settled(flying === null);
    },
    drop() { flying = null; waiting = {}; clearTimeout(timer); busy(false); },
    start(at) { seq = Math.max(seq, at); },
  };
}

// A sign of per cent stays with its number.
const unbroken = (text) => String(text).replaceAll(" %", "\u00a0%");

function emphasised(text) {
  return unbroken(text).split("**").map((piece, i) => (i % 2 ? h("strong", { text: piece }) : document.createTextNode(piece)));
}

// The headline is announced; facts, badges and their explanations are there to be read.
function answerPlace(mend) {
  const id = freshId();
  const say = h("p", { class: "ck-headline", role: "status", id });
  const fixes = h("div", { class: "ck-fixes", role: "group", "aria-label": "Nearest values that can be used" });
  const facts = h("ul", { class: "ck-facts" });
  const place = h("div", { class: "ck-say" }, say, fixes, facts);
  const chips = h("div", { class: "ck-chips", role: "group", "aria-label": "How this is known" });
  const tip = h("p", { class: "ck-tip", "aria-hidden": "true" });
  tip.hidden = true;
  const badge = ([label, why]) => {
    const tell = () => { tip.textContent = why; tip.hidden = false; };
    const hide = () => { tip.hidden = true; };
    return h("button", { type: "button", class: "ck-chip", text: label, "aria-description": why,
      onfocus: tell, onmouseenter: tell, onclick: tell, onblur: hide, onmouseleave: hide, onkeydown: (e) => { if (e.key === "Escape") hide(); } });
  };
  const last = {};
  let tallest = 0, wide = 0;
  const keepHeight = () => {  // an answer of fewer lines moves nothing below it
    const width = place.parentElement.clientWidth;
    if (wide !== width) { tallest = 0; wide = width; place.style.minHeight = ""; }
    tallest = Math.max(tallest, place.offsetHeight);
    place.style.minHeight = `${tallest}px`;
  };
  const anew = (what, value, draw) => { const text = JSON.stringify(value); if (text !== last[what]) draw(); last[what] = text; };
  return {
    el: h("div", { class: "ck-answer" }, place, h("div", { class: "ck-badges" }, chips, tip)),
    id,
    show(shown) {
      keepHeight();
      anew("headline", [shown.headline, shown.error], () => {
        say.replaceChildren(...emphasised(shown.headline));
        [...say.querySelectorAll("strong")].find((strong) => /^[$\d]/.test(strong.textContent))?.classList.add("ck-number-large");
      });
      anew("fixes", shown.fixes, () => fixes.replaceChildren(...shown.fixes.map((text, i) => h("button", { type: "button", text, onclick: () => mend(i) }))));
      anew("facts", shown.facts, () => facts.replaceChildren(...shown.facts.map((fact) => h("li", {}, ...emphasised(fact)))));
      anew("chips", shown.chips, () => { tip.hidden = true; chips.replaceChildren(...shown.chips.map(badge)); });
      place.classList.toggle("ck-error", Boolean(shown.error));
      keepHeight();
    },
    say(text) { say.textContent = text; last.headline = ""; fixes.replaceChildren(); facts.replaceChildren(); last.fixes = last.facts = ""; },
  };
}

// What a chart shows, in words: its rows with what stands beside them, or how far each of its figures reaches.
function inWords(title, columns) {
  const names = Object.keys(columns), shown = [];
  for (const [i, row] of (columns.row ?? []).entries()) {
    if (columns.text?.[i]) shown.push(`${row}: ${String(columns.text[i]).replaceAll("|", ", ")}`);
  }
  const text = (value) => value.toLocaleString("en", Number.isInteger(value) ? {} : { maximumSignificantDigits: 3 });
  if (!shown.length) for (const name of names) {
    const list = [...listOf(columns[name])].filter((value) => typeof value === "number" && Number.isFinite(value));
    const low = list.reduce((a, b) => Math.min(a, b), Infinity), high = list.reduce((a, b) => Math.max(a, b), -Infinity);
    if (list.length && !INTERNAL.has(name)) shown.push(`${name.replaceAll("_", " ")} ${low === high ? text(low) : `from ${text(low)} to ${text(high)}`}`);
  }
  return `${[title].flat().join(" ")}. ${shown.slice(0, 12).join("; ")}${shown.length > 12 ? `; and ${shown.length - 12} more, in the table` : ""}.`;
}
const INTERNAL = new Set(["rank", "key", "group", "source", "unit", "model", "device", "order", "id", "x", "y", "at"]);

function controlsPlace(shape, send) {
  const made = {};
  const make = (control) => (made[control.name] = MAKERS[control.kind](control, send));
  const section = (list) => {
    const groups = new Map();
    for (const control of list) {
      if (!groups.has(control.group)) groups.set(control.group, []);
      groups.get(control.group).push(make(control).el);
    }
    return [...groups].map(([name, els]) => h("fieldset", {}, h("legend", { text: name }), ...els));
  };
  const form = h("form", { class: "ck-controls", "aria-label": `Controls: ${shape.title}`, onsubmit: (e) => e.preventDefault() });
  const own = shape.controls.filter((c) => c.place === "controls");
  form.append(...section(own.filter((c) => !c.more)));
  const rest = own.filter((c) => c.more);
  const more = h("details", { class: "ck-more" }, h("summary", { text: "More" }), ...section(rest));
  if (rest.length) form.append(more);
  const views = shape.controls.filter((c) => c.place === "picture").map(make);
  let marked = "";
  return {
    el: form, made, views: h("div", { class: "ck-views" }, ...views.map((v) => v.bare)),
    // The control at fault says so, and is in sight.
    mark(name, reason) {
      for (const [each, control] of Object.entries(made)) {
        const box = control.bare?.closest(".ck-views") ? control.bare : control.el;
        box.classList.toggle("ck-faulty", each === name);
        for (const input of control.inputs) {
          if (each === name) { input.setAttribute("aria-invalid", "true"); input.setAttribute("aria-describedby", reason); } else { input.removeAttribute("aria-invalid"); input.removeAttribute("aria-describedby"); }
        }
      }
      if (name && name !== marked && more.contains(made[name].el)) more.open = true;
      marked = name;
    },
    focus(name) {
      const [input] = made[name]?.inputs ?? [];
      (input?.querySelector("[tabindex='0']") ?? input)?.focus({ preventScroll: true });
    },
  };
}

function partsPlace() {
  const head = h("div", { class: "ck-parts-head" });
  const bar = h("div", { class: "ck-bar", "aria-hidden": "true" });
  const ghost = h("div", { class: "ck-bar ck-ghost", "aria-hidden": "true" });
  const keys = h("div", { class: "ck-keys", role: "group", "aria-label": "Parts" });
  const detail = h("div", { class: "ck-detail", "aria-live": "polite" });
  let buttons = [], chosen = null, parts = [];
  const tell = () => {
    const part = parts.find((p) => p.name === chosen);
    detail.textContent = part ? unbroken(`${part.name}: ${part.text}. ${part.formula}`) : "Select a part to read how it is computed.";
    for (const b of buttons) b.setAttribute("aria-pressed", b.dataset.part === chosen);
  };
  const choose = (b) => { chosen = b.dataset.part; for (const other of buttons) other.tabIndex = other === b ? 0 : -1; tell(); };
  const fill = (row, list, whole) => {
    while (row.children.length < list.length) row.append(h("span"));
    while (row.children.length > list.length) row.lastChild.remove();
    list.forEach((part, i) => { row.children[i].style.cssText = `width:${(100 * part.value) / whole}%;background:${part.colour}`; row.children[i].title = `${part.name}: ${part.text}`; });
  };
  return {
    el: h("div", { class: "ck-parts" }, head, bar, ghost, keys, detail),
    show(shown) {
      parts = shown.parts;
      const sum = (list) => list.reduce((a, p) => a + p.value, 0);
      const whole = Math.max(sum(parts), sum(shown.ghost), 1e-300);
      head.textContent = shown.parts_title;
      fill(bar, parts, whole);
      fill(ghost, shown.ghost, whole);
      ghost.style.visibility = shown.ghost.length ? "visible" : "hidden";
      if (buttons.length !== parts.length || buttons.some((b, i) => b.dataset.part !== parts[i].name)) {
        buttons = parts.map((part, i) => h("button", { type: "button", "data-part": part.name, tabindex: i ? -1 : 0 },
          h("span", { class: "ck-swatch", style: `background:${part.colour}` }), h("span", { text: part.name }), h("span", { class: "ck-value" })));
        roving(buttons, choose);
        keys.replaceChildren(...buttons);
      }
      parts.forEach((part, i) => { buttons[i].lastChild.textContent = unbroken(part.text); });
      tell();
    },
  };
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.body.appendChild(h("textarea", { "aria-hidden": "true" }));
    area.value = text;
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

const inApp = () => Boolean(document.body.dataset.voila);

// The address of this notebook, or of the app, that opens a panel in a state: of no workspace, and with nothing of a query
// that was there, be it a token.
function linkTo(query, binder) {
  const path = location.pathname.replace(/\/workspaces\/[^/]+(?=\/tree\/)/, "");
  if (!query || !/^https?:$/.test(location.protocol) || !(path.endsWith(".ipynb") || inApp())) return "";
  if (!binder || inApp()) return `${location.origin}${path}?${query}`;
  return `${binder}?urlpath=${encodeURIComponent(`${path.replace(/^\/user\/[^/]+\//, "")}?${query}`)}`;
}

// The state that a link asks for, and whether of this panel: of the one that the link's cell makes, or of the first of that
// name where a link names no cell. JupyterLab takes the query out of the address when it opens the notebook; the entry of
// the navigation keeps what was asked for.
function linkedState(name, cell) {
  const notebook = (url) => url.pathname.split("/").pop();
  for (const address of [location.href, performance.getEntriesByType("navigation")[0]?.name]) {
    let url;
    try { url = new URL(address); } catch { continue; }
    if (!url.searchParams.get("panel") || notebook(url) !== notebook(location)) continue;
    if (inApp() && !url.searchParams.has("state")) return null;
    if (globalThis.__cookbookLinked) return null;
    const alike = url.searchParams.get("panel") === name, here = alike && (url.searchParams.get("cell") || cell) === cell;
    globalThis.__cookbookLinked = here;
    if (here) for (const told of document.querySelectorAll(".ck-astray")) told.remove();
    return { state: url.searchParams.get("state") ?? "", here, alike };
  }
  return null;
}

// Says so where no panel takes up a link, because its cell has not run or is gone; one panel of the notebook does, one of
// the link's kind before others, and can take the state. What it said goes when the cell runs after all.
function astray({ state, alike }, root, take) {
  const open = h("button", { type: "button", text: "Open it in this panel", onclick: () => { globalThis.__cookbookLinked = true; told.remove(); take(state); } });
  const told = h("p", { class: "ck-astray", role: "status" },
    `This link is for a panel that is not shown here yet: run all cells; if its cell is gone, ${alike ? "open its state in this one. " : "ask for a new link."}`,
    alike ? open : "");
  return setTimeout(() => {
    if (!globalThis.__cookbookLinked && root.isConnected && !document.querySelector(".ck-astray")) root.prepend(told);
  }, alike ? ASTRAY : 2 * ASTRAY);
}

const web = (url) => (/^https?:\/\//i.test(url ?? "") ? url : "");

function tableOf(table) {
  const numeric = table.columns.map((_, i) => table.rows.every((row) => typeof row[i] === "string" && /^([-\d]|none$|$)/.test(row[i])));
  const linked = (cell) => h("td", {}, web(cell.url) ? h("a", { href: cell.url, target: "_blank", rel: "noopener", text: cell.text }) : cell.text);
  const cells = (row, tag) => row.map((cell, i) => (cell?.text !== undefined ? linked(cell) : h(tag, { text: cell ?? "", class: numeric[i] ? "ck-num" : "", scope: tag === "th" ? "col" : null })));
  return h("div", { class: "ck-scroll", tabindex: 0, role: "region", "aria-label": "Table" },
    h("table", {}, h("caption", { text: table.caption }), h("thead", {}, h("tr", {}, ...cells(table.columns, "th"))), h("tbody", {}, ...table.rows.map((row) => h("tr", {}, ...cells(row, "td"))))));
}

function sourcesOf(sources) {
  const item = ([title, url, note]) => h("li", {}, web(url) ? h("a", { href: url, target: "_blank", rel: "noopener", text: title }) : h("span", { text: title }), note ? h("span", { class: "ck-note", text: ` ${note}` }) : null);
  return h("div", { class: "ck-scroll", tabindex: 0, role: "region", "aria-label": "Sources" }, h("p", { text: sources.intro }), h("ol", {}, ...sources.items.map(item)));
}

function toolsPlace(model, post, picture, shown) {
  const drawer = h("div", { class: "ck-drawer" });
  const button = (text, title, onclick) => h("button", { type: "button", text, title, onclick });
  const ask = (what) => post({ do: "open", what: shown().open === what ? "" : what });
  const copy = button("Copy as code", "Copy the calls that reproduce this state", async () => {
    await copyText(shown().code);
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy as code"; }, 1500);
  });
  const link = button("Copy link", "Copy an address that opens the panel in this state", async () => {
    const { page, binder } = model.get("shape");
    const address = page ? `${location.href.split(/[?#]/)[0]}?${shown().link}` : linkTo(shown().link, binder);
    if (address) await copyText(address);
    link.textContent = address ? "Copied" : "No link for this state: copy it as code";
    setTimeout(() => { link.textContent = "Copy link"; }, address ? 1500 : 4000);
  });
  const pin = button("Pin", "Keep this scenario as a ghost to compare with; press again to let it go", () => post({ do: "pin" }));
  const table = button("Table", "Show the numbers, at most 15 rows", () => ask("table"));
  const sources = button("Where do these numbers come from?", "Each source with its link", () => ask("sources"));
  const reset = button("Reset", "Back to the state this panel was made with", () => post({ do: "reset" }));
  const csv = button("CSV", "Download the numbers behind the picture", () => post({ do: "csv" }));
  const png = button("PNG", "Download the picture", async () => download(`${shown().file}.png`, await picture().png()));
  const code = h("pre", { class: "ck-code", tabindex: 0, "aria-label": "The calls that reproduce this state" });
  model.on("msg:custom", (message) => {
    if (message.csv !== undefined) download(message.file, `data:text/csv;charset=utf-8,${encodeURIComponent(message.csv)}`);
  });
  let drawn = "";
  const tools = model.get("shape").page ? [reset, copy, link, png, sources] : [pin, reset, copy, link, table, csv, png, sources];
  return {
    asking: [pin, reset, table, csv, sources],
    el: h("div", { class: "ck-foot" }, h("div", { class: "ck-tools", role: "group", "aria-label": "Tools" }, ...tools), drawer, code),
    show(s) {
      pin.setAttribute("aria-pressed", s.pinned);
      pin.textContent = s.pinned ? "Unpin" : "Pin";
      table.setAttribute("aria-expanded", s.open === "table");
      sources.setAttribute("aria-expanded", s.open === "sources");
      if (code.textContent !== s.code) code.textContent = s.code;
      const body = JSON.stringify([s.open, s.table, s.sources]);
      if (body !== drawn) drawer.replaceChildren(...(s.table ? [tableOf(s.table)] : s.sources ? [sourcesOf(s.sources)] : []));
      drawn = body;
    },
  };
}

async function render({ model, el }) {
  const shape = model.get("shape");
  const shown = () => model.get("shown");
  const root = h("div", { class: "cookbook-panel", role: "region", "aria-label": shape.title });
  const overdue = watchAnswers((gone) => stopped(gone));
  const busy = (on) => { root.classList.toggle("ck-busy", on); root.setAttribute("aria-busy", on); overdue(on); };
  const stopped = (gone) => {
    root.classList.toggle("ck-dim", gone || Boolean(shown().error));
    if (gone) { out.drop(); answer.say(KERNEL_STOPPED); } else if (root.classList.contains("ck-stopped")) show();
    root.classList.toggle("ck-stopped", gone);
    // A disabled fieldset takes no input in any of its controls; tools that need no kernel stay.
    const deaf = [...controls.el.querySelectorAll("fieldset"), ...controls.views.querySelectorAll("button"), ...presets.children, ...tools.asking];
    for (const el of deaf) { el.disabled = gone; if (el.matches("fieldset")) el.setAttribute("aria-disabled", gone); }
  };
  // A kernel that was shut down tells nobody; the first message to it fails.
  const post = (message) => { try { model.send(message); } catch { stopped(true); } };
  const out = outbox(post, busy, (done) => { root.dataset.settled = done; });
  out.start(shown().seq);
  // The button that mends goes with the error; the control that it mended takes the focus.
  const answer = answerPlace((index) => { controls.focus(shown().faulty); post({ do: "mend", index }); });
  const presets = h("div", { class: "ck-presets", role: "group", "aria-label": "Presets" },
    ...shape.presets.map((text, index) => h("button", { type: "button", text, onclick: () => post({ do: "preset", index }) })));
  presets.hidden = !shape.presets.length;
  const controls = controlsPlace(shape, out.put);
  const words = h("p", { class: "ck-words", id: freshId() });
  const figure = h("div", { class: "ck-figure", style: `height:${shape.height}px` });
  const chartPlace = h("div", { role: "figure", "aria-label": "Chart", "aria-describedby": words.id }, figure, words);
  const parts = partsPlace();
  let chart = null;
  const tools = toolsPlace(model, post, () => chart, shown);
  root.append(answer.el, presets, h("div", { class: "ck-body" }, controls.el, h("div", { class: "ck-main" }, controls.views, chartPlace, parts.el)), tools.el);
  keepKeys(root);
  el.replaceChildren(root);
  root.dataset.settled = true;

  const show = () => {
    const s = shown();
    answer.show(s);
    for (const [name, control] of Object.entries(controls.made)) if (out.settled(name, s.seq)) control.show(s.state[name], s.off[name]);
    controls.mark(s.faulty, answer.id);
    parts.show(s);
    tools.show(s);
    root.classList.toggle("ck-dim", Boolean(s.error));
  };
  const state = () => ({ spec: model.get("specs")[shown().picture], columns: model.get("columns"), signals: shown().signals });
  show();
  const update = async () => {
    show();
    const at = shown().seq;
    await chart?.update();
    out.arrived(at);
    describe();
  };
  let later = 0;
  const describe = () => {
    clearTimeout(later);
    later = setTimeout(() => {
      words.textContent = inWords(shown().signals.live_title, model.get("columns"));
    }, SLOW);
  };
  model.on("change:shown", update);
  try {
    // A mark whose row names a control sets it when clicked; one with a key tells which row it is.
    chart = await mountChart(model, figure, state, ({ control, value, key }) => {
      if (control) out.put(control, value);
      else if (shape.pick && key >= 0) post({ do: "pick", key });
    });
  } catch (error) {
    figure.replaceChildren(h("p", { class: "ck-error", role: "alert", text: error.message }));
  }
  const redrawn = new MutationObserver(describe);
  redrawn.observe(figure, { childList: true, subtree: true });
  describe();
  const asked = linkedState(shown().name, model.get("shape").cell);
  const take = (state) => { post({ do: "link", state }); root.scrollIntoView({ block: "nearest" }); };
  const lost = asked && !asked.here && location.pathname.endsWith(".ipynb") ? astray(asked, root, take) : 0;
  if (asked?.here) take(asked.state);
  const unwatch = await watchKernel(model, stopped);
  return () => { model.off("change:shown", update); unwatch(); redrawn.disconnect(); clearTimeout(later); clearTimeout(lost); chart?.dispose(); };
}
export default { render };
