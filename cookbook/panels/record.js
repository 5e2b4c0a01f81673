// The decision record: what a panel says now, fields for the reader's own words, and files to take away.
// A sheet of paper: as wide as its text, and white in a dark theme too.
const SHEET = "position:absolute;left:-9999px;width:760px;--jp-ui-font-color1:#212121;--jp-ui-font-color2:#616161;--jp-layout-color0:#ffffff;--jp-border-color2:#e0e0e0";

async function render({ model, el }) {
  const root = h("form", { class: "cookbook-record", "aria-label": "Decision record", onsubmit: (e) => e.preventDefault() });
  const limits = model.get("limits");
  const keep = (name) => (e) => { model.set(name, e.target.value); model.save_changes(); };
  const field = (name, label, input) => {
    input.id = freshId();
    input.value = model.get(name);
    input.oninput = keep(name);
    model.on(`change:${name}`, () => { if (input.value !== model.get(name)) input.value = model.get(name); });
    return h("div", { class: "ck-field" }, h("label", { for: input.id, text: label }), input);
  };
  const said = h("div", { class: "ck-told" });
  const sections = (list) => list.flatMap(([heading, rows]) => [
    h("h4", { text: heading }),
    h("ul", {}, ...rows.map(([label, text]) => h("li", {}, label ? h("strong", { text: `${label}: ` }) : null, document.createTextNode(text)))),
  ]);
  const first = ([heading]) => heading === "Decision" || heading === "Answer";
  const rest = h("details", {}, h("summary", { text: "Inputs, parts and assumptions that the file holds, beside code and sources" }));
  const show = () => {
    const all = model.get("said");
    rest.replaceChildren(rest.firstChild, ...sections(all.filter((one) => !first(one))));
    said.replaceChildren(...sections(all.filter(first)), rest);
  };
  const status = h("p", { role: "status", class: "ck-note" });
  const save = (kind, name) => h("button", { type: "button", text: `Save as ${name}`, title: `Download this record as ${name}, with its sources`, onclick: () => {
    try { model.send({ save: kind }); } catch { status.textContent = KERNEL_STOPPED; }
  } });
  // The chart of the decision, drawn where nobody sees it: the panel may show another one, far up in the notebook.
  const drawn = async (state) => {
    const sheet = document.body.appendChild(h("div", { style: SHEET, "aria-hidden": "true" }));
    try {
      const chart = await mountChart(model, sheet, () => state);
      const png = await chart.png();
      chart.dispose();
      return png;
    } catch { return ""; } finally { sheet.remove(); }
  };
  const report = h("button", { type: "button", text: "Report with chart and table", title: "Download one page to print or hand on: answer, chart, table, inputs, sources", onclick: () => {
    try { model.send({ do: "draw" }); } catch { status.textContent = KERNEL_STOPPED; }
  } });
  model.on("msg:custom", async ({ problem, file, text, type, chart }) => {
    if (chart) {
      const picture = await drawn(chart);
      try { model.send({ save: "report", picture }); } catch { status.textContent = KERNEL_STOPPED; }
      return;
    }
    if (file) download(file, URL.createObjectURL(new Blob([text], { type })));
    status.textContent = problem ?? `Saved as ${file}.`;
  });
  model.on("change:said", show);
  show();
  root.append(
    field("question", "Question", h("input", { type: "text", class: "ck-text", maxlength: limits.question })), said,
    field("note", "Your decision and why", h("textarea", { class: "ck-text", rows: 4, maxlength: limits.note })),
    field("date", "Date", h("input", { type: "date", class: "ck-text" })),
    h("div", { class: "ck-tools", role: "group", "aria-label": "Save the record" }, save("md", "Markdown"), save("html", "HTML"), report), status);
  keepKeys(root);
  el.replaceChildren(root);
  const unwatch = await watchKernel(model, (gone) => { if (gone) status.textContent = KERNEL_STOPPED; });
  return () => { model.off("change:said", show); unwatch(); };
}
export default { render };
