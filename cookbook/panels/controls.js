// Controls of a panel. Each maker returns { el, inputs, show(state, off) } and calls `send(name, raw)`.
// Every panel loads scripts of its own, so that they count together or two controls of a notebook have one name.
const freshId = () => `ck-${globalThis.__cookbookIds = (globalThis.__cookbookIds ?? 0) + 1}`;

function h(tag, props = {}, ...kids) {
  const el = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) el[key] = value;
    else if (key === "text") el.textContent = value;
    else el.setAttribute(key, value === true ? "" : value);
  }
  el.append(...kids.filter((kid) => kid !== null));
  return el;
}

function labelled(control, id, ...kids) {
  const label = h("label", { for: id, text: control.label, title: control.tooltip });
  const reason = h("span", { class: "ck-reason" });
  return { reason, el: h("div", { class: "ck-control", "data-control": control.name }, h("div", { class: "ck-label" }, label, kids.shift() ?? null), ...kids, reason) };
}

function setOff(field, inputs, off) {
  const why = off?.["*"] ?? "";
  for (const input of inputs) {
    input.disabled = Boolean(why);
    if (why) input.setAttribute("data-why", why); else input.removeAttribute("data-why");
  }
  field.reason.textContent = why;
  field.el.classList.toggle("ck-off", Boolean(why));
}

function sliderControl(control, send) {
  const id = freshId();
  const last = control.stops.length - 1;
  const number = h("input", { type: "text", id, class: "ck-number", autocomplete: "off", spellcheck: "false", title: control.tooltip });
  const box = h("span", { class: control.unit ? "ck-box ck-narrow" : "ck-box" }, number, control.unit ? h("span", { class: "ck-unit", text: control.unit }) : null);
  const range = h("input", { type: "range", min: 0, max: last, step: 1, class: "ck-range", "aria-label": control.label, title: control.tooltip });
  // A word in place of 0 has no unit, and more room.
  const speak = (text) => {
    const word = Boolean(control.zero) && text === control.zero;
    range.setAttribute("aria-valuetext", control.unit && !word ? `${text} ${control.unit}` : text);
    box.classList.toggle("ck-word", word);
  };
  const fill = () => range.style.setProperty("--at", `${(100 * range.value) / last}%`);
  const stop = (index) => {
    const [value, text] = control.stops[index];
    range.value = index;
    number.value = text;
    speak(text);
    fill();
    send(control.name, value);
  };
  range.oninput = () => stop(range.valueAsNumber);
  number.onchange = () => send(control.name, number.value);
  number.onkeydown = (e) => {
    const step = { ArrowUp: 1, ArrowDown: -1, PageUp: 4, PageDown: -4 }[e.key];
    if (!step) return;
    e.preventDefault();
    stop(Math.min(last, Math.max(0, range.valueAsNumber + step)));
  };
  const field = labelled(control, id, box, range);
  return {
    el: field.el, inputs: [number],
    show(state, off) {
      number.value = state.text;
      range.value = state.index;
      speak(state.text);
      fill();
      setOff(field, [number, range], off);
    },
  };
}

// One Tab stop, arrows move: for radio groups and for the parts of a sum.
function roving(items, act) {
  const enabled = () => items.filter((item) => item.getAttribute("aria-disabled") !== "true");
  const go = (item) => { item.focus(); act(item); };
  for (const item of items) {
    item.onkeydown = (e) => {
      const list = enabled(), at = list.indexOf(item), n = list.length;
      const next = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1 + n, ArrowUp: at - 1 + n, Home: 0, End: n - 1 }[e.key];
      if (next === undefined || !n) return;
      e.preventDefault();
      go(list[next % n]);
    };
    item.onclick = () => { if (item.getAttribute("aria-disabled") !== "true") go(item); };
  }
}

function choiceControl(control, send) {
  const id = freshId();
  const group = h("div", { class: "ck-choice", role: "radiogroup", id, "aria-label": control.label });
  const buttons = control.options.map(([value, label]) => h("button", { type: "button", role: "radio", "data-value": value, text: label }));
  group.append(...buttons);
  const mark = (value) => {
    for (const b of buttons) {
      const on = b.dataset.value === value;
      b.setAttribute("aria-checked", on);
      b.tabIndex = on ? 0 : -1;
    }
    if (!buttons.some((b) => b.tabIndex === 0)) buttons[0].tabIndex = 0;
  };
  roving(buttons, (b) => { mark(b.dataset.value); send(control.name, b.dataset.value); });
  const field = labelled(control, id, null, group);
  return {
    el: field.el, inputs: [group],
    bare: group,
    show(state, off) {
      mark(state.text);
      control.options.forEach(([value, , tip], i) => {
        const why = off?.[value] ?? off?.["*"] ?? "";
        buttons[i].setAttribute("aria-disabled", Boolean(why));
        buttons[i].title = why || tip || control.tooltip || "";
      });
    },
  };
}

const MOST_SHOWN = 500;

// A name without case and without what separates its words; between digits a separator tells 1.6 from 16.
const squash = (text) => text.toLowerCase().replace(/(?<=\d)[\s\-_.,()/]+(?=\d)/g, ":").replace(/[\s\-_.,()/]+/g, "");

// A search over [value, label, other words, group]: what is called so first, then what belongs to a group of that name,
// what begins so, has these words, or contains them; among equals those most used. Another word is a name of its own
// where only one option has it, like RN50; else it tells a kind, like NFS.
function searchOf(options, popular) {
  const place = new Map(popular.map((key, i) => [key, i]));
  const others = options.map(([, , search]) => search.split(";").map(squash));
  const borne = new Map();
  for (const name of others.flat()) borne.set(name, (borne.get(name) ?? 0) + 1);
  const index = options.map((option, i) => {
    const [key, label, search, group] = option;
    const names = [key, label].map(squash).concat(others[i].filter((name) => borne.get(name) === 1));
    const kinds = [...others[i], squash(group)];
    const words = new Set([label, search].join(" ").toLowerCase().split(/[^\p{L}\p{N}.+]+/u));
    return { option, names, kinds, words, used: place.get(key) ?? popular.length };
  });
  // "llama 3" begins Llama 3 70B, and not LLaMA 33B.
  const begins = (name, whole) => name.startsWith(whole) && !/\d[\d:]$/.test(name.slice(0, whole.length + 1).slice(-2));
  const rank = ({ option, names, kinds, words }, whole, parts) => {
    if (names.includes(whole)) return 0;
    if (squash(option[3]) === whole) return 1;
    if (names.some((name) => begins(name, whole))) return 2;
    const within = (list, part) => list.some((name) => name.includes(part));
    if (!parts.every(({ part }) => within(names, part) || within(kinds, part))) return Infinity;
    if (parts.every(({ word }) => words.has(word))) return 3;
    return parts.every(({ part }) => within(names, part)) ? 4 : 5;
  };
  return (typed) => {
    const whole = squash(typed);
    const parts = typed.toLowerCase().split(/\s+/).map((word) => ({ word, part: squash(word) })).filter(({ part }) => part);
    if (!whole) return options.map((option) => ({ option, at: 1 }));
    const hits = index.map((entry, i) => ({ option: entry.option, at: rank(entry, whole, parts), used: entry.used, i }));
    return hits.filter(({ at }) => at < Infinity).sort((a, b) => a.at - b.at || a.used - b.used || a.i - b.i);
  };
}

// The text of a file, unpacked where it is compressed by gzip, and no more letters of it than can be used.
async function textOf(file, most) {
  const [one, two] = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  const bytes = one === 0x1f && two === 0x8b ? file.stream().pipeThrough(new DecompressionStream("gzip")) : file.stream();
  const reader = bytes.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (let next = await reader.read(); !next.done && text.length < most; next = await reader.read()) text += next.value;
  } catch {
    return text || file.name;  // broken in the middle: what came out is judged as a pasted text
  }
  reader.cancel();
  return text.slice(0, most);
}

function comboControl(control, send) {
  const id = freshId();
  const input = h("input", { type: "text", id, role: "combobox", class: "ck-combo", autocomplete: "off", spellcheck: "false", "aria-autocomplete": "list",
    "aria-expanded": "false", "aria-controls": `${id}-list`, title: control.tooltip, placeholder: control.many ? "type to add…" : "type to search…" });
  const list = h("ul", { id: `${id}-list`, role: "listbox", class: "ck-list", "aria-label": control.label, "aria-multiselectable": control.many, popover: "manual" });
  const chosen = h("div", { class: "ck-chosen" });
  const area = h("textarea", { class: "ck-text", rows: 6, spellcheck: "false", "aria-label": `${control.label}: your own`, placeholder: control.custom?.example });
  const apply = h("button", { type: "button", text: "Use this" });
  const close = h("button", { type: "button", text: "Close" });
  const file = h("input", { type: "file", accept: control.custom?.files, tabindex: "-1", "aria-hidden": "true" });
  file.hidden = true;
  const browse = control.custom?.files ? h("button", { type: "button", text: "From a file…" }) : null;
  const editor = h("div", { class: "ck-editor" }, h("div", { class: "ck-hint", text: control.custom?.help ?? "" }), area, h("div", { class: "ck-row" }, apply, browse, close), file);
  editor.hidden = true;
  let held = null;
  const matches = searchOf(control.options, control.popular);
  let state = { keys: [], labels: [], own: "", text: "" }, shown = [], active = -1;
  // typing: what stands in the box is a search and not the present value; found: something is called so; exact: the first
  // is called just so; suggested: the first is marked, though no arrow key has gone there yet.
  let typing = false, found = false, exact = false, suggested = false;

  const standing = () => (control.many ? "" : state.text);
  const present = () => {
    typing = false;
    input.value = standing();
    if (document.activeElement === input) input.select();
  };
  const note = (text) => h("li", { class: "ck-more-options", role: "presentation", text });
  const open = (typed) => {
    const hits = matches(typed);
    shown = hits.slice(0, MOST_SHOWN).map(({ option: [key, label, , group] }) => ({ key, label, group }));
    const own = control.custom && { key: null, label: control.custom.label, group: "" };
    const meant = own && typed.trim() && own.label.toLowerCase().startsWith(typed.trim().toLowerCase());
    if (own) { if (meant) shown.unshift(own); else shown.push(own); }
    const bare = !typed.trim();
    list.replaceChildren(...shown.flatMap((option, i) => {
      const on = state.keys.includes(option.key);
      const li = h("li", { role: "option", id: `${id}-${i}`, "aria-selected": on, class: on ? "ck-on" : "" }, h("span", { text: option.label }), h("span", { class: "ck-group", text: bare ? "" : option.group }));
      li.onmousedown = (e) => { e.preventDefault(); pick(option); };
      return bare && option.group && option.group !== shown[i - 1]?.group ? [note(option.group), li] : [li];
    }));
    if (hits.length > MOST_SHOWN) list.append(note(`${hits.length - MOST_SHOWN} more: type to narrow`));
    if (!hits.length && !meant) list.prepend(note("nothing matches"));
    if (list.hidden) {
      list.hidden = false;
      list.showPopover?.();
      document.addEventListener("scroll", place, true);
    }
    place();
    input.setAttribute("aria-expanded", "true");
    // Typing suggests the first; else what is chosen is marked, or nothing, so that ArrowDown goes to the first.
    found = hits.length > 0 || Boolean(meant);
    exact = !meant && hits[0]?.at === 0;
    suggested = Boolean(typed.trim()) && found;
    // A search among several goes to what is not chosen yet, unless it names one just so.
    const next = control.many && !exact ? shown.findIndex((o) => o.key !== null && !state.keys.includes(o.key)) : 0;
    highlight(suggested ? Math.max(0, next) : typed.trim() || control.many ? -1 : shown.findIndex((o) => o.key === state.keys[0]));
  };
  // Above all else on the page, so that nothing clips it: below the box, or above it where there is more room.
  const place = () => {
    const box = input.getBoundingClientRect(), width = Math.min(Math.max(box.width + 48, 280), innerWidth - 16);
    const below = innerHeight - box.bottom, up = below < 248 && box.top > below;
    const style = { left: Math.max(8, Math.min(box.left, innerWidth - width - 8)), width, maxHeight: Math.min(240, (up ? box.top : below) - 8) };
    for (const [name, value] of Object.entries(style)) list.style[name] = `${value}px`;
    list.style.top = up ? "auto" : `${box.bottom}px`;
    list.style.bottom = up ? `${innerHeight - box.top}px` : "auto";
  };
  const highlight = (index) => {
    active = index;
    const options = list.querySelectorAll("[role=option]");
    options.forEach((li, i) => li.classList.toggle("ck-active", i === index));
    const li = options[index];
    if (li) { input.setAttribute("aria-activedescendant", li.id); li.scrollIntoView({ block: "nearest" }); } else input.removeAttribute("aria-activedescendant");
  };
  const hide = () => {
    if (!list.hidden && list.isConnected) list.hidePopover?.();
    document.removeEventListener("scroll", place, true);
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const shut = () => { hide(); present(); };
  const sendMany = (keys, own) => send(control.name, own ? [...keys, { custom: own }] : keys);
  const drop = (key) => {
    const at = state.keys.indexOf(key), others = (_, i) => i !== at;
    if (at < 0) return;
    state = { ...state, keys: state.keys.filter(others), labels: state.labels.filter(others) };
    sendMany(state.keys, state.own);
  };
  // What a search suggests is added and never taken away; `searched` tells it from what a reader pointed at.
  const pick = (option, searched = false) => {
    if (option.key === null) { shut(); editor.hidden = false; area.value = state.own || area.value || control.custom.example; area.focus(); return; }
    if (!control.many) { state = { ...state, keys: [option.key], text: option.label, own: "" }; send(control.name, option.key); shut(); return; }
    const there = state.keys.includes(option.key);
    if (!there || !searched) {
      state = { ...state, keys: there ? state.keys.filter((k) => k !== option.key) : [...state.keys, option.key] };
      sendMany(state.keys, state.own);
    }
    present();
    if (document.activeElement !== input) { hide(); return; }
    open("");
    highlight(shown.findIndex((o) => o.key === option.key));
  };
  // What was typed, to the kernel, which knows further spellings and says so where nothing is called that.
  const offer = () => {
    const typed = input.value.trim();
    hide();
    typing = false;
    if (document.activeElement === input) input.select();
    if (control.many) sendMany([...state.keys, typed], state.own); else send(control.name, typed);
  };
  const used = () => typing && input.value.trim();
  input.onfocus = present;
  // A click selects what stands there; the browser's own click would put the caret somewhere in it.
  input.onmousedown = (e) => {
    if (list.hidden) open("");
    if (typing) return;
    e.preventDefault();
    input.focus();
    input.select();
  };
  input.oninput = () => { typing = true; open(input.value); };
  // Leaving takes what was typed in full, and offers what the list does not know; else the present value stands again.
  input.onblur = () => {
    if (used() && exact) pick(shown[0], true);
    else if (used() && !found) offer();
    else shut();
  };
  input.onkeydown = (e) => {
    const n = shown.length, closed = list.hidden;
    if (e.key === "Escape") { if (!closed || typing) { e.preventDefault(); shut(); } return; }
    if (e.key === "Backspace" && control.many && !input.value && state.keys.length) { drop(state.keys.at(-1)); return; }
    if (e.key === "Enter") {
      e.preventDefault();
      if (!closed && active >= 0) pick(shown[active], suggested);
      else if (used()) offer();
      return;
    }
    const next = { ArrowDown: suggested ? 0 : active + 1, ArrowUp: active - 1, PageDown: active + 8, PageUp: active - 8, Home: 0, End: n - 1 }[e.key];
    if (next === undefined || (closed && (e.key === "Home" || e.key === "End"))) return;
    e.preventDefault();
    if (closed) { open(""); if (active < 0) highlight(0); } else highlight(Math.min(n - 1, Math.max(0, next)));
    suggested = false;
  };
  const written = () => (held && area.value === held.words ? held.text : area.value);
  apply.onclick = () => { if (control.many) sendMany(state.keys, written()); else send(control.name, { custom: written() }); };
  if (browse) browse.onclick = () => file.click();
  // Nothing is sent before the reader says so; what a panel cannot take, it says as of a pasted text.
  // A long text is held and not shown; one letter more than is allowed is enough to be refused.
  file.onchange = async () => {
    const [one] = file.files;
    file.value = "";
    if (one) {
      const text = (await textOf(one, control.custom.most + 1)).trim();
      held = text.length > 40_000 ? { text, words: `${one.name}, ${Math.ceil(text.length / 1e3).toLocaleString("en")} thousand letters: choose Use this` } : null;
      area.value = held?.words ?? text;
    }
    apply.focus();
  };
  close.onclick = () => { editor.hidden = true; if (control.many && state.own) sendMany(state.keys, ""); input.focus(); };
  list.hidden = true;
  list.onmousedown = (e) => e.preventDefault();  // its scroll bar does not take the focus
  const field = labelled(control, id, null, h("div", { class: "ck-combo-box" }, input, list), control.many ? chosen : null, control.custom ? editor : null);
  return {
    el: field.el, inputs: [input, area],
    show(next, off) {
      state = next;
      if (!typing && input.value !== standing()) present();
      if (state.own && document.activeElement !== area) area.value = state.own;
      chosen.replaceChildren(...state.keys.map((key, i) => h("button", { type: "button", tabindex: -1, class: "ck-tag", title: `Remove ${state.labels[i]}`, "aria-label": `Remove ${state.labels[i]}`,
        onclick: () => drop(key) }, h("span", { text: state.labels[i] }), h("span", { "aria-hidden": "true", text: "×" }))),
      ...state.labels.slice(state.keys.length).map((label) => h("span", { class: "ck-tag", text: label })),
      ...(state.labels.length > 2 ? [h("button", { type: "button", class: "ck-clear", "aria-label": `Remove all of ${control.label}`, text: "Remove all",
        onclick: () => { area.value = ""; send(control.name, []); input.focus(); } })] : []));
      setOff(field, [input], off);
    },
  };
}

const MAKERS = { slider: sliderControl, choice: choiceControl, combo: comboControl };
