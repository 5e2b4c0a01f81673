// Three answers, each looked up in a table of the page, drawn, and kept in the address. Only prices are computed here.
const unpacked = async (text) => new Response(new Blob([Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
const data = await unpacked(document.getElementById("data").textContent).catch((problem) => {
  document.getElementById("card").textContent = "This page needs a browser of 2023 or later. In a terminal, cookbook what-runs, cookbook need and cookbook serve give the same.";
  throw problem;
});
const root = document.documentElement, byId = (id) => document.getElementById(id);
const values = (question, name) => data[question].axes.find(([axis]) => axis === name)[1];
const FIRST = {
  runs: { on: values("runs", "on")[0], request: values("runs", "request")[0], weights: "widest", sort: "largest", find: "", memory: "", bandwidth: "" },
  need: { model: values("need", "model")[0], request: values("need", "request")[0] },
  cost: { model: values("cost", "model")[0], on: values("cost", "on")[0], load: values("cost", "load")[0], weights: values("cost", "weights")[0], price: "" },
};
const BITS = { widest: 0, "16-bit": 16, "8-bit": 8, "4-bit": 4 }, SORTS = { largest: "Largest first", fastest: "Fastest first" };
const WORDS = { q: "question", on: "device", request: "lengths", sort: "order" };
const LISTED = 12, NEAREST = 3, MOST_USD = 1e9;
const number = (text) => Number(String(text).replaceAll(",", ""));
const lengths = (request) => request.split("-").map(Number);
const requestWords = (request) => lengths(request).map((count) => count.toLocaleString("en")).join(" + ");

// Dollars as `units.dollars` of the package writes them.
function dollars(usd) {
  if (usd === undefined || Number.isNaN(usd)) return "not known";
  if (Math.abs(usd) < 1e-5) return "$0";
  const size = Number(usd.toPrecision(3));
  const [name, factor] = size < 1e4 ? ["", 1] : [["tn", 1e12], ["bn", 1e9], ["M", 1e6], ["k", 1e3]].find(([, each]) => size >= each);
  if (name) return `$${digits(size / factor)} ${name}`;
  return size < 10 && size === Number(size.toFixed(2)) ? `$${size.toFixed(2)}` : `$${digits(size)}`;
}

// Three digits without an exponent.
function digits(value) {
  const rounded = Number(value.toPrecision(3));
  return rounded.toLocaleString("en", { maximumSignificantDigits: 3, useGrouping: true });
}

// --- answers: what the page says in a state, without a word of HTML -------------------------------------------
const look = (question, state) => told(data[question], data[question].axes.map(([name, all]) => all.indexOf(state[name])));
const option = (flag, value) => (value === "" || value === undefined ? "" : ` --${flag} ${value}`);
const lengthOptions = (question, request) => {
  const [prompt, answer] = lengths(request);
  return request === FIRST[question].request ? "" : `${option("input-len", prompt)}${option("output-len", answer)}`;
};
const verified = (text, model) => text.replace(/\bMODEL\b(?!\.)/g, data.models[model].id || "MODEL");

function runsAnswer(state) {
  const found = look("runs", state), device = data.devices[state.on], formats = new Map();
  for (const [model, precision, bits] of data.rows) {
    const row = found.rows?.[`${model} ${precision}`];
    if (row) formats.set(model, [...(formats.get(model) ?? []), { precision, bits, ...row }]);
  }
  const verify = data.verify[found.software]?.[state.request] ?? "", wanted = BITS[state.weights];
  const lines = [], without = [];
  for (const [model, rows] of formats) {
    const able = rows.filter((row) => row.speed && (!wanted || row.bits === wanted));
    const named = { model, title: data.models[model].name, parameters: data.models[model].parameters };
    if (able.length) lines.push({ ...named, ...able[0], formats: rows, verify: verified(verify, model) });
    else if (!rows.some((row) => row.speed)) without.push({ ...named, ...rows.at(-1) });
  }
  if (state.sort === "fastest") lines.sort((one, other) => number(other.speed) - number(one.speed));
  const command = `cookbook what-runs --on ${state.on}${lengthOptions("runs", state.request)}${wanted ? " --json" : ""}`;
  const facts = [device.memory, device.bandwidth, device.launched && `launched in ${device.launched}`, device.price && `rent ${device.price}`, found.software && `with ${found.software}`];
  return { headline: found.headline, facts: facts.filter(Boolean), lines, without, command, sources: device.sources };
}

function needAnswer(state) {
  const { headline, rows } = look("need", state);
  const sources = rows.flatMap((row) => (row.device ? data.devices[row.device]?.sources ?? [] : []));
  return { headline, rows, command: `cookbook need ${state.model}${lengthOptions("need", state.request)}`, sources: [...new Set(sources)] };
}

// The price that counts: the reader's own, else the dated median; and what is wrong with the reader's.
function priceOf(text, device) {
  const own = text.trim() === "" ? undefined : number(text.replace(/^\$/, ""));
  if (own === undefined) return { usd: device.usd[0], own: false, problem: "" };
  const fits = own >= 0 && own <= MOST_USD;
  return { usd: fits ? own : device.usd[0], own: fits, problem: fits ? "" : `“${text}” is no price: give dollars per device-hour, such as 2.50` };
}

function costAnswer(state) {
  const found = look("cost", state), device = data.devices[state.on], price = priceOf(state.price, device);
  const [flag, value] = state.load.split("=");
  const command = `cookbook serve ${state.model} ${state.on}${option(flag, value)}${state.weights === "published" ? "" : option("weights-format", state.weights)}${price.own ? option("hourly", price.usd) : ""}`;
  const common = { device: device.name, price, command, sources: device.sources, why: found.why ?? "" };
  if (found.why) return common;
  const times = (units, usd = price.usd) => units.map((unit) => dollars(unit === undefined ? undefined : unit * usd));
  const ends = price.own ? undefined : device.usd.slice(1).map((usd) => dollars(found.output[0] * usd));
  return { ...common, ...found, output: times(found.output), input: times(found.input), usd: found.output.map((unit) => unit * price.usd), ends, hour: dollars(found.devices * price.usd) };
}

const ANSWERS = { runs: runsAnswer, need: needAnswer, cost: costAnswer };
globalThis.cookbook = { answer: (question, state) => ANSWERS[question]({ ...FIRST[question], ...state }) };

// --- elements -----------------------------------------------------------------------------------------------------
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(made.style, value);
    else if (value === true || value === false) made.toggleAttribute(name, value);
    else made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== "" && child != null));
  return made;
}

function field(label, control, kind = "") {
  return el("div", { class: `field ${kind}` }, el("label", { for: control.id }, label), control);
}

function select(id, label, options, chosen, pick, kind = "") {
  const made = el("select", { id, onchange: (event) => pick(event.target.value) }, Object.entries(options).map(([value, words]) => el("option", { value, selected: value === chosen }, words)));
  return field(label, made, kind);
}

function pills(name, label, options, chosen, pick, kind = "") {
  const made = Object.entries(options).map(([value, words]) => el("label", {}, el("input", { type: "radio", name, value, checked: value === chosen, onchange: () => pick(value) }), words));
  return el("fieldset", { class: `field ${kind}` }, el("legend", {}, label), el("div", { class: "pills" }, made));
}

// A text box that lists what matches; `pick` gets a key, or "" with the text where nothing was meant.
function combobox(id, label, keys, about, chosen, pick, kind = "wide") {
  const name = (key) => about[key]?.name ?? key;
  const input = el("input", { id, role: "combobox", "aria-expanded": "false", "aria-controls": `${id}-list`, "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false", autocapitalize: "off", value: name(chosen) });
  const list = el("div", { id: `${id}-list`, role: "listbox", "aria-label": label, hidden: true });
  let current = chosen, active = -1, options = [];
  const matches = (text) => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const exact = keys.filter((key) => name(key).toLowerCase() === text.trim().toLowerCase());
    const begins = (key) => words.every((word) => ` ${about[key].words}`.includes(` ${word}`));
    const found = keys.filter((key) => words.every((word) => about[key].words.includes(word)));
    return exact.length ? exact : [...found.filter(begins), ...found.filter((key) => !begins(key))];
  };
  const mark = (at) => {
    active = at;
    options.forEach((each, k) => each.classList.toggle("active", k === at));
    if (options[at]) { input.setAttribute("aria-activedescendant", options[at].id); options[at].scrollIntoView({ block: "nearest" }); } else input.removeAttribute("aria-activedescendant");
  };
  const close = () => { list.hidden = true; input.setAttribute("aria-expanded", "false"); input.removeAttribute("aria-activedescendant"); active = -1; };
  const take = (key) => { current = key; input.value = name(key); close(); pick(key, ""); };
  const open = (found, at) => {
    const groups = new Map();
    for (const key of found) groups.set(about[key].group, [...(groups.get(about[key].group) ?? []), key]);
    options = [];
    list.replaceChildren(...[...groups].map(([group, members], k) => el("div", { role: "group", "aria-labelledby": `${id}-group-${k}` },
      el("div", { id: `${id}-group-${k}`, class: "head", role: "presentation" }, group),
      members.map((key) => {
        const side = about[key].memory ?? about[key].parameters;
        const made = el("div", { role: "option", id: `${id}-${options.length}`, "aria-selected": String(key === current), onmousedown: (event) => event.preventDefault(), onclick: () => take(key) }, name(key), side ? el("span", {}, side) : "");
        made.dataset.key = key;
        options.push(made);
        return made;
      }))));
    if (!found.length) list.replaceChildren(el("div", { class: "none", role: "presentation" }, "Not listed"));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    mark(at ?? options.findIndex((each) => each.dataset.key === current));
  };
  const settle = () => {
    const text = input.value.trim(), found = matches(text);
    close();
    if (text === name(current)) return;
    if (text && found.length === 1) take(found[0]);
    else if (text && !found.length) { current = text; pick("", text); } else input.value = name(current);
  };
  input.addEventListener("focus", () => input.select());
  input.addEventListener("click", () => { if (list.hidden) open(keys); });
  input.addEventListener("input", () => open(input.value.trim() ? matches(input.value) : keys, input.value.trim() ? 0 : -1));
  input.addEventListener("blur", settle);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      if (list.hidden) open(keys);
      else if (options.length) mark((active + step + options.length) % options.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (!list.hidden && options[active]) take(options[active].dataset.key);
      else settle();
    } else if (event.key === "Escape" && !list.hidden) { event.preventDefault(); input.value = name(current); close(); }
  });
  const all = el("button", { type: "button", tabindex: "-1", "aria-label": `List every choice of ${label.toLowerCase()}`, onmousedown: (event) => event.preventDefault(), onclick: () => { if (list.hidden) { input.focus(); open(keys); } else close(); } }, "▾");
  const made = field(label, el("div", { class: "combo" }, input, all), kind);
  made.querySelector("label").htmlFor = id;
  made.append(list);
  return made;
}

async function copy(text, button) {
  const before = button.textContent;
  try { await navigator.clipboard.writeText(text); } catch {
    const box = el("textarea", { "aria-hidden": "true" });
    box.value = text;
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1500);
}

// Code that breaks between words alone; copied, it is one line.
const code = (text) => el("code", {}, text.split(" ").flatMap((word, k) => [k ? " " : "", el("span", {}, word)]));
const command = (text, label) => el("div", { class: "command" }, code(text), el("button", { type: "button", "aria-label": label, onclick: (event) => copy(text, event.currentTarget) }, "Copy"));

// --- intervals as bars on one logarithmic axis ----------------------------------------------------------------
function scaleOf(ends) {
  const low = Math.log(Math.min(...ends) / 1.05), high = Math.log(Math.max(...ends) * 1.05);
  return { at: (value) => `${(100 * (Math.log(value) - low)) / (high - low)}%`, low: Math.exp(low), high: Math.exp(high) };
}

function ticks(scale, write) {
  const marks = [];
  for (let power = -6; power < 9; power++) for (const digit of [1, 2, 5]) marks.push(digit * 10 ** power);
  const within = marks.filter((mark) => mark >= scale.low && mark <= scale.high), tens = within.filter((mark) => Number.isInteger(Math.log10(mark)) || Math.abs(Math.log10(mark) % 1) < 1e-9);
  const shown = tens.length >= 2 ? tens : within;
  return shown.filter((_, k) => shown.length < 6 || k % 2 === 0).map((mark) => el("span", { style: { left: scale.at(mark) } }, write(mark)));
}

const axisRow = (scale, write, words) => el("div", { class: "row", "aria-hidden": "true" }, el("div", { class: "note name" }, words), el("div", { class: "ticks plot" }, ticks(scale, write)));

function plot(scale, low, point, high, measured) {
  const bar = el("i", { style: { left: scale.at(low), right: `calc(100% - ${scale.at(high)})` } });
  return el("div", { class: "plot", "aria-hidden": "true" }, bar, measured ? el("em", { style: { left: scale.at(measured) } }) : "", el("b", { style: { left: scale.at(point) } }));
}

// --- what is shown of each answer -----------------------------------------------------------------------------------
// A date stays on one line.
const dated = (text) => text.replace(/\b(\d{4})-(\d\d)(?:-(\d\d))?\b/g, (date) => date.replaceAll("-", "\u2011"));
const facts = (list) => el("ul", { class: "facts" }, list.filter(Boolean).map((fact) => el("li", {}, dated(fact))));
const ratesOf = (row) => row.measured?.match(/^[\d.,]+/)?.[0] ?? "";
const measuredWords = (row) => `✓ ${row.measured.replace(" (", " tokens/s measured (")}`;
let opened = false;

function runsLine(line, scale) {
  const rate = ratesOf(line);
  const evidence = [
    line.measured && el("li", { class: "measured" }, measuredWords(line)),
    el("li", {}, `Estimate ${line.speed} tokens/s (${line.low} to ${line.high}, 80 %), ${line.tier}`),
    line.verify && el("li", {}, "Verify, with the model served: ", code(line.verify)),
    el("li", {}, `All formats: ${line.formats.map((row) => `${row.precision} ${row.memory}${row.speed ? `, ${row.speed} tokens/s (${row.low} to ${row.high})` : ", does not fit"}`).join("; ")}`),
  ];
  return el("li", {}, el("details", {}, el("summary", { class: "row" },
    el("span", { class: "name" }, line.title, el("span", { class: "tag" }, line.precision)),
    el("span", { class: "note" }, `${line.memory} · ${line.measured ? "measured" : line.tier}`),
    el("span", { class: "value" }, rate ? el("span", { class: "measured" }, `✓ ${rate}`) : line.speed, el("small", {}, " tokens/s")),
    el("span", { class: "more" }, rate ? `estimate ${line.speed} (${line.low} to ${line.high})` : `${line.low} to ${line.high}`),
    plot(scale, number(line.low), number(line.speed), number(line.high), rate && number(rate))),
  el("ul", { class: "evidence" }, evidence.filter(Boolean))));
}

function showRuns(state, top, list) {
  if (!data.devices[state.on] || !values("runs", "on").includes(state.on)) return showUnlisted(state, top, list);
  const answer = runsAnswer(state), words = state.find.toLowerCase().split(/\s+/).filter(Boolean);
  const matching = answer.lines.filter((line) => words.every((word) => data.models[line.model].words.includes(word)));
  const [, head, count, rest] = answer.headline.match(/^(.*?\)): ([^;]*)(?:; (.*))?$/) ?? ["", answer.headline, "", ""];
  top.replaceChildren(el("h2", {}, head), count ? el("p", { class: "big" }, count) : "", rest ? el("p", {}, `${rest}.`) : "", facts(answer.facts));
  const shown = opened ? matching : matching.slice(0, LISTED), parts = [];
  if (shown.length) {
    const scale = scaleOf(shown.flatMap((line) => [number(line.low), number(line.high), ...(ratesOf(line) ? [number(ratesOf(line))] : [])]));
    parts.push(axisRow(scale, (mark) => mark.toLocaleString("en"), `${shown.length} of ${matching.length} models; tokens/s, 80 % interval`), el("ul", { class: "rows" }, shown.map((line) => runsLine(line, scale))));
  } else parts.push(el("p", { class: "empty" }, words.length ? "No model of these words runs here." : "No model runs here in this format."));
  if (shown.length < matching.length) parts.push(el("p", { class: "actions" }, el("button", { type: "button", onclick: () => { opened = true; render(); } }, `Show all ${matching.length}`)));
  if (answer.without.length) {
    parts.push(el("details", {}, el("summary", {}, `${answer.without.length} models that do not run here, and what they take`),
      el("ul", { class: "sources" }, answer.without.map((line) => el("li", {}, `${line.title} in ${line.precision}: ${line.why ?? line.memory}`)))));
  }
  list.replaceChildren(...parts);
  return { ...answer, csv: [["model", "weights", "memory", "tokens_per_s", "low_80", "high_80", "measured", "evidence"], ...matching.map((line) => [line.title, line.precision, line.memory, number(line.speed), number(line.low), number(line.high), line.measured ?? "", line.tier])] };
}

// A device that no row lists: its memory and bandwidth, the nearest rows, and the command that answers for it.
function showUnlisted(state, top, list) {
  const devices = values("runs", "on"), result = el("div");
  const update = () => {
    const asked = [state.memory, state.bandwidth].map(number), given = asked.every((value) => value > 0);
    const away = (key) => ["gigabytes", "rate"].reduce((sum, name, k) => sum + Math.log(data.devices[key][name] / asked[k]) ** 2, 0);
    const near = given ? [...devices].sort((one, other) => away(one) - away(other)).slice(0, NEAREST) : [];
    const button = (key) => el("button", { type: "button", onclick: () => go({ on: key, memory: "", bandwidth: "" }, true) }, `${data.devices[key].name}: ${data.devices[key].memory}, ${data.devices[key].bandwidth}`);
    const run = `cookbook what-runs --memory ${given ? asked[0] : "24"} --bandwidth ${given ? asked[1] : "1008"}`;
    result.replaceChildren(...(near.length ? [el("p", {}, "Nearest in both:"), el("div", { class: "actions" }, near.map(button))] : []),
      el("p", {}, given ? "Exactly for yours, from a terminal:" : "From a terminal, for example:"), command(run, "Copy the command for another device"));
  };
  const box = (name, label, hint) => field(label, el("input", { id: name, inputmode: "decimal", autocomplete: "off", placeholder: hint, value: state[name], oninput: (event) => {
    state[name] = event.target.value;
    history.replaceState(null, "", address());
    update();
  } }));
  update();
  top.replaceChildren(el("h2", {}, `This page has no row for “${state.on}”`));
  list.replaceChildren(el("div", { class: "empty" },
    el("p", {}, `It lists ${devices.length} devices. For another one, give its memory and memory bandwidth:`),
    el("div", { class: "bar" }, box("memory", "Memory [GB]", "24"), box("bandwidth", "Bandwidth [GB/s]", "1008")), result));
  return { command: "", sources: [], csv: null };
}

function showNeed(state, top, list) {
  const answer = needAnswer(state);
  const others = (row) => (row.device && values("runs", "on").includes(row.device) ? el("button", { type: "button", class: "plain", onclick: () => go({ on: row.device }, true, "runs") }, row.held) : row.held);
  const [, head, format, memory, held] = answer.headline.match(/^(.*? parameters): served in (\S+) it takes ([^:]+): (.*)$/) ?? ["", answer.headline];
  top.replaceChildren(el("h2", {}, head), memory ? el("p", { class: "big" }, memory, el("small", {}, ` served in ${format}`)) : "", held ? el("p", {}, `${held}.`) : "");
  list.replaceChildren(el("ul", { class: "rows" }, answer.rows.map((row) => el("li", { class: "row two" },
    el("span", { class: "name" }, row.to[0].toUpperCase() + row.to.slice(1), el("span", { class: "tag" }, row.precision)),
    el("span", { class: "note" }, others(row), row.device ? ` · ${dated(row.price ?? "no price is known")}` : ""),
    el("span", { class: "value" }, row.memory),
    el("span", { class: "more" }, row.interval ?? "computed")))),
  el("p", { class: "quiet" }, "The device is the one with the least memory that holds it; choose it to see what else runs there. Fine-tuning and training take sequences of 2,048 tokens, one at a time on each device, with full recomputation."));
  return { ...answer, csv: [["use", "weights", "memory", "interval_80", "smallest_that_holds_it", "price"], ...answer.rows.map((row) => [row.to, row.precision, row.memory, row.interval ?? "", row.held, row.price ?? ""])] };
}

// Ends of a cost; of a load that both ends of the speed keep up with, the devices that each takes.
function costSpan({ output: [, low, high], fewest: [fast, slow] }) {
  if (low !== high) return `${low} to ${high}`;
  return fast && slow && fast !== slow ? `${fast} to ${slow} devices` : "the same at both ends";
}

const counted = (answer) => `${answer.devices} × ${answer.device}`;

function showCost(state, top, list) {
  const answer = costAnswer(state), device = data.devices[state.on], title = data.models[state.model].name;
  byId("price").placeholder = String(device.usd[0]);
  byId("price").setAttribute("aria-invalid", String(Boolean(answer.price.problem)));
  byId("price-note").textContent = answer.price.problem || (answer.price.own ? `Your own price; the dated one is ${dated(device.price)}.` : dated(device.price));
  const every = values("cost", "on").map((key) => [key, key === state.on ? answer : costAnswer({ ...state, on: key, price: "" })]);
  if (answer.why) top.replaceChildren(el("h2", {}, `${title} is not served on ${answer.device}`), el("p", {}, `${answer.why[0].toUpperCase()}${answer.why.slice(1)}.`));
  else {
    const [fast, slow] = answer.fewest, span = ([, low, high]) => `${low} to ${high}`;
    top.replaceChildren(
      el("h2", {}, `${title} on ${counted(answer)}, ${data.loads[state.load]}`),
      el("p", { class: "big" }, answer.output[0], el("small", {}, " per million output tokens")),
      facts([`${costSpan(answer)} ${costSpan(answer).endsWith("ends") ? "of" : "over"} the 80 % interval of its speed`, answer.ends && `${answer.ends[0]} to ${answer.ends[1]} over the quartiles of prices`, `prompts: ${answer.input[0]} per million input tokens (${span(answer.input)})`]),
      facts([`${answer.hour}/h for ${answer.devices === 1 ? "one device" : `${answer.devices} devices`}${fast && slow && fast !== slow ? ` (${fast} to ${slow}, 80 %)` : ""}`, `TTFT p50 ${answer.ttft[0]} (${span(answer.ttft)})`, `TPOT p50 ${answer.tpot[0]} (${span(answer.tpot)})`].filter(Boolean)),
      el("ul", { class: "evidence" }, [
        answer.measured && el("li", { class: "measured" }, `✓ Measured: ${answer.measured}`),
        el("li", {}, `Estimate: ${answer.tokens[0]} tokens/s (${span(answer.tokens)}, 80 %), ${answer.tier}`),
        answer.verify && el("li", {}, "Verify: ", code(answer.verify)),
        answer.start && el("li", {}, "Served by: ", code(answer.start)),
        el("li", { class: "quiet" }, `Assumed: ${answer.assumed}`)].filter(Boolean)));
  }
  const priced = every.filter(([, other]) => !other.why && other.usd.every((usd) => usd > 0)).sort(([, one], [, other]) => one.usd[0] - other.usd[0]);
  const parts = [el("h3", {}, "The same on other devices, at dated prices")];
  if (priced.length) {
    const scale = scaleOf(priced.flatMap(([, other]) => other.usd));
    parts.push(axisRow(scale, dollars, "Per million output tokens, 80 % interval"), el("ul", { class: "rows" }, priced.map(([key, other]) => el("li", { class: key === state.on ? "row chosen" : "row" },
      el("span", { class: "name" }, key === state.on ? counted(other) : el("button", { type: "button", class: "plain", onclick: () => go({ on: key, price: "" }, true) }, counted(other))),
      el("span", { class: "note" }, `${other.hour}/h · `, other.price.own ? "your own price" : dated(data.devices[key].dates)),
      el("span", { class: "value" }, other.output[0]), el("span", { class: "more" }, costSpan(other)), plot(scale, other.usd[1], other.usd[0], other.usd[2])))));
  }
  const none = every.filter(([, other]) => other.why);
  if (none.length) parts.push(el("details", {}, el("summary", {}, `${none.length} devices that do not serve it`), el("ul", { class: "sources" }, none.map(([, other]) => el("li", {}, `${other.device}: ${other.why}`)))));
  list.replaceChildren(...parts);
  return { ...answer, csv: [["device", "devices", "usd_per_hour", "usd_per_million_output", "low_80", "high_80", "price_dates"], ...priced.map(([key, other]) => [other.device, other.devices, other.hour, ...other.output, key === state.on && other.price.own ? "own price" : data.devices[key].dates])] };
}

// --- controls, address and page ---------------------------------------------------------------------------------
const states = structuredClone(FIRST);
let question = "runs", shown = {};

function go(changes, controls = false, to = question, typed = false) {
  Object.assign(states[to], changes);
  if (to !== question) opened = false;
  if (to !== question || controls) { question = to; build(); }
  const hash = address();
  if (typed) history.replaceState(null, "", hash); else if (hash !== location.hash) history.pushState(null, "", hash);
  render();
}

function address() {
  const state = Object.entries(states[question]).filter(([name, value]) => value !== FIRST[question][name] || ["on", "model"].includes(name));
  return `#${new URLSearchParams([["q", question], ...state])}`;
}

function follow() {
  const asked = new URLSearchParams(location.hash.slice(1)), to = asked.get("q");
  question = to in FIRST ? to : "runs";
  states[question] = { ...FIRST[question] };
  const strange = [...asked].filter(([name, value]) => {
    const axis = data[question].axes.find(([each]) => each === name)?.[1];
    const choices = { weights: question === "runs" ? Object.keys(BITS) : undefined, sort: Object.keys(SORTS) }[name] ?? axis;
    const free = ["find", "memory", "bandwidth", "price"].includes(name) || (name === "on" && question === "runs");
    if (name === "q") return !(value in FIRST);
    if (!(name in FIRST[question]) || !(free || choices?.includes(value))) return true;
    states[question][name] = value.slice(0, 100);
    return false;
  });
  build();
  render();
  if (strange.length) byId("answer").prepend(el("p", { class: "empty", role: "alert" }, `This page has no ${strange.map(([name, value]) => `${WORDS[name] ?? name} “${value.slice(0, 40)}”`).join(", ")} as the link says; it shows its own first choice instead.`));
}

function build() {
  const state = states[question], to = question;
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const chosen = tab.id === `tab-${question}`;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
  }
  byId("card").setAttribute("aria-labelledby", `tab-${question}`);
  const requests = (names) => Object.fromEntries(names.map((name) => [name, requestWords(name)]));
  const device = (keys) => combobox("on", "Device", keys, data.devices, state.on, (key, text) => go({ on: key || text.slice(0, 100), ...(to === "cost" && { price: "" }) }, to === "cost"), to === "cost" ? "" : "wide");
  const model = () => combobox("model", "Model", values(to, "model"), data.models, state.model, (key) => (key ? go({ model: key }) : rebuilt()), to === "cost" ? "" : "wide");
  const request = () => pills("request", "Tokens of prompt + answer", requests(values(to, "request")), state.request, (value) => go({ request: value }));
  const own = to === "cost" && el("input", { id: "price", inputmode: "decimal", autocomplete: "off", value: state.price, "aria-describedby": "price-note", oninput: (event) => go({ price: event.target.value }, false, to, true) });
  const controls = {
    runs: () => [device(values("runs", "on")), request(), select("weights", "Weights", { widest: "widest format that fits", "16-bit": "16 bits", "8-bit": "8 bits", "4-bit": "4 bits" }, state.weights, (value) => go({ weights: value }))],
    need: () => [model(), request()],
    cost: () => [model(), device(values("cost", "on")), pills("load", "Load", data.loads, state.load, (value) => go({ load: value }), "wide"),
      pills("weights", "Weights", { published: "as published", int4: "int4" }, state.weights, (value) => go({ weights: value })),
      el("div", { class: "field" }, el("label", { for: "price" }, "USD per device-hour"), own, el("div", { id: "price-note", class: "quiet" }))],
  };
  byId("controls").replaceChildren(...controls[question]());
  const bar = to === "runs" ? el("div", { class: "bar" }, field("Find a model", el("input", { id: "find", type: "search", autocomplete: "off", value: state.find, oninput: (event) => go({ find: event.target.value }, false, to, true) })), select("sort", "Order", SORTS, state.sort, (value) => go({ sort: value }))) : "";
  byId("answer").replaceChildren(el("div", { class: "top", role: "status" }), ...(bar ? [bar] : []), el("div", { class: "list" }));
}

function rebuilt() {
  build();
  render();
}

function render() {
  const [top, list] = [".top", ".list"].map((name) => byId("answer").querySelector(name));
  const listed = question !== "runs" || values("runs", "on").includes(states.runs.on);
  byId("answer").querySelector(".bar")?.toggleAttribute("hidden", !listed);
  shown = { runs: showRuns, need: showNeed, cost: showCost }[question](states[question], top, list);
  const links = [...new Set(shown.sources)].filter((key) => data.sources[key]).map((key) => data.sources[key]);
  const actions = [el("button", { type: "button", id: "link", onclick: (event) => copy(location.href, event.currentTarget) }, "Copy link"), shown.csv ? el("button", { type: "button", id: "csv", onclick: download }, "Download CSV") : "",
    root.classList.contains("embed") ? el("a", { href: `${location.pathname}${address()}`, target: "_blank", rel: "noopener" }, "Open in the Deep Learning Cookbook") : ""];
  byId("foot").replaceChildren(...[shown.command ? el("h3", {}, "The same from a terminal") : "", shown.command ? command(shown.command, "Copy the command") : "", el("div", { class: "actions" }, actions),
    links.length ? el("details", {}, el("summary", {}, `Sources of devices and prices (${links.length})`), el("ul", { class: "sources" }, links.map(([title, url]) => el("li", {}, url ? el("a", { href: url, rel: "noopener" }, title) : title)))) : ""].filter(Boolean));
}

function download() {
  const cell = (value) => (/[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  const text = shown.csv.map((row) => row.map(cell).join(",")).join("\r\n");
  const link = el("a", { href: URL.createObjectURL(new Blob([`${text}\r\n`], { type: "text/csv" })), download: `${question}-${states[question].on ?? states[question].model}.csv` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// The device that the browser names, where a row has that very name: only a suggestion.
async function suggest() {
  const names = [];
  try {
    const adapter = await navigator.gpu?.requestAdapter();
    names.push(adapter?.info?.description, adapter?.info?.device);
  } catch { /* a browser without it names nothing */ }
  const brands = new RegExp(`^(?:${data.brands})+`), plain = (text) => text.toLowerCase().replace(/\((?:r|tm|c)\)|[®™©]/g, " ").trim().replace(/(?<=\d)[\s\-_.,()/]+(?=\d)/g, ":").replace(/[\s\-_.,()/]+/g, "").replace(brands, "").replace(/(?:graphics|gpu|card)$/, "");
  const key = names.filter(Boolean).map((text) => values("runs", "on").find((each) => data.devices[each].same.includes(plain(text)))).find(Boolean);
  if (!key) return;
  const chip = el("button", { type: "button", onclick: () => { byId("suggestion").hidden = true; go({ on: key }, true, "runs"); } }, `This browser reports ${data.devices[key].name}: show it`);
  byId("suggestion").replaceChildren(chip);
  byId("suggestion").hidden = key === states.runs.on;
}

root.classList.toggle("embed", new URLSearchParams(location.search).get("embed") === "1");
const tabs = [...document.querySelectorAll("[role=tab]")];
tabs.forEach((tab, at) => {
  tab.addEventListener("click", () => go({}, true, tab.id.slice(4)));
  tab.addEventListener("keydown", (event) => {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = tabs[(to + tabs.length) % tabs.length];
    next.focus();
    next.click();
  });
});
byId("controls").addEventListener("submit", (event) => event.preventDefault());
addEventListener("popstate", follow);
const stored = { get: () => { try { return localStorage.getItem("theme"); } catch { return null; } }, set: (value) => { try { localStorage.setItem("theme", value); } catch { /* this page only */ } } };
if (["dark", "light"].includes(stored.get())) root.dataset.theme = stored.get();
const isDark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const named = () => { byId("theme").textContent = isDark() ? "Light theme" : "Dark theme"; };
byId("theme").addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; stored.set(root.dataset.theme); named(); });
named();
follow();
suggest();
