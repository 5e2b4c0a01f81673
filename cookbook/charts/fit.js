// How a chart uses the width that it has: text in lines, legends in as many columns as fit, labels over their rows.
const LEAST = 240;  // px; a chart in less is cut
const NARROW = 640;
const BOLD = "600 14px", PLAIN = "12px", STRONG = "bold 12px";
const LINE = 18, LOW_LINE = 16;  // px of a line of the title, and of all other text
const SYMBOL = 34;  // px of a legend's symbol and the gap behind its text
const ASIDE = 206, MOST_ASIDE = 386, AXIS = 60;  // px at the left of a legend: labels of rows, and values of an axis
const ABOVE = 2;  // lines of legend and subtitle that the height of a chart has room for

const ruler = document.createElement("canvas").getContext("2d");
function lengthOf(text, font, weight) {
  ruler.font = `${weight} ${font}`;
  return ruler.measureText(text).width;
}

function wrap(text, width, font, weight) {
  const lines = [];
  for (const word of [text].flat().join(" ").replaceAll(" %", "\u00a0%").split(" ")) {
    const last = lines.length - 1;
    if (last >= 0 && lengthOf(`${lines[last]} ${word}`, font, weight) <= width) lines[last] += ` ${word}`;
    else lines.push(word);
  }
  return lines;
}

// Legends above or below the picture, as they stand in a Vega-Lite spec.
function legendsOf(spec) {
  const own = Object.values(spec.encoding ?? {}).filter((each) => ["top", "bottom"].includes(each?.legend?.orient));
  return [...own, ...(spec.layer ?? []).flatMap(legendsOf)];
}

// The words of a legend: a list, or the name of the signal that holds them.
function wordsOf({ scale, legend }, signals) {
  const domain = legend.values ?? scale?.domain;
  return Array.isArray(domain) ? domain : signals[(legend.labelExpr ?? domain?.expr ?? "").split("[")[0]] ?? [];
}

function columnsFor(words, title, width, font) {
  const own = words.map((word) => SYMBOL + Math.min(lengthOf(String(word), font, PLAIN), width - SYMBOL));
  const room = width - (title ? lengthOf(title, font, PLAIN) + SYMBOL : 0);
  const needed = (columns) => own.slice(0, columns).reduce((sum, _, at) => sum + Math.max(...own.filter((_, i) => i % columns === at)), 0);
  for (let columns = words.length; columns > 1; columns--) if (needed(columns) <= room) return columns;
  return 1;
}

// Lines over each row, 0 where label and words stand beside it: both in one, or the words below the label.
function linesOver({ row, text }, width, font) {
  let shared = true, most = 1;
  for (let i = 0; i < row.length; i++) {
    const words = String(text?.[i] ?? ""), whole = lengthOf(words.replaceAll("|", ", "), font, PLAIN);
    if (lengthOf(row[i], font, STRONG) + 16 + whole > width) shared = false;
    if (whole > width) most = Math.max(most, words.split("|").length);
  }
  return shared ? 1 : 1 + most;
}

// All that depends on the width or on the words of the legends, which Vega lays out only once. `before` is the layout of
// the state before: a chart grows, and never jumps back.
function layoutOf({ spec, columns, signals }, width, font, before) {
  const narrow = width < NARROW, rows = spec.params?.some(({ name }) => name === "over") ? signals.rows?.length ?? 0 : 0;
  const over = rows && narrow ? Math.max(linesOver(columns, width, font), before?.over ?? 0) : 0;
  const subtitle = [spec.title?.subtitle ?? []].flat().flatMap((line) => wrap(line, width, font, PLAIN));
  const legends = legendsOf(spec), [legend] = legends, title = legend?.legend.title ?? "";
  const words = legend ? wordsOf(legend, signals) : [], all = legends.map((each) => wordsOf(each, signals));
  const colour = spec.encoding?.color, named = ["nominal", "ordinal"].includes(colour?.type) && colour.legend !== null;
  const beside = narrow && !legend && named ? new Set(listOf(columns[colour.field])).size + 1 : 0;
  const label = Math.max(ASIDE, ...(signals.rows ?? []).map((row) => lengthOf(row, font, STRONG)));
  const keys = columnsFor(words, narrow ? "" : title, width - (over ? 0 : rows ? Math.min(label, MOST_ASIDE) : AXIS), font);
  const lines = subtitle.length + Math.ceil(words.length / keys) + (narrow && title ? 1 : 0) + beside;
  const head = narrow ? LINE * wrap(signals.live_title ?? "", width, font, BOLD).length + LOW_LINE * lines : 0;
  const height = !spec.height || !narrow ? spec.height
    : Math.max(over ? head + Math.max(rows * (LOW_LINE * over + 24), 150) + 80 : spec.height + Math.max(head - LINE - ABOVE * LOW_LINE, 0), before?.height ?? 0);
  return { narrow, over, width, subtitle, all, beside, keys, height };
}

function laidOut(spec, { narrow, width, subtitle, beside, keys, height }) {
  if (spec.width === "container") spec.width = width;
  if (height) spec.height = height;
  if (spec.title?.subtitle) spec.title.subtitle = subtitle;
  if (beside) Object.assign(spec.config.legend, { orient: "top", columns: 1 });
  for (const { legend } of legendsOf(spec)) {
    legend.columns = keys;
    legend.labelLimit = Math.max(width - SYMBOL, 60);
    if (narrow && legend.title) legend.titleOrient = "top";
  }
  return spec;
}

// Names of axes in lines, in the compiled spec, where each axis is one.
function axesWrapped(spec, { width, height }, font) {
  for (const axis of spec.axes ?? []) {
    const across = ["top", "bottom"].includes(axis.orient), room = across ? width - 90 : (height ?? 300) - 160;
    if (typeof axis.title === "string") axis.title = wrap(axis.title, Math.max(room, 120), font, PLAIN);
  }
  return spec;
}
