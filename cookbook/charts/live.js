async function render({ model, el }) {
  el.classList.add("cookbook-chart");
  const picture = el.appendChild(document.createElement("div"));
  const foot = el.appendChild(document.createElement("div"));
  const note = foot.appendChild(document.createElement("span"));
  const save = foot.appendChild(document.createElement("button"));
  foot.className = "cookbook-chart-foot";
  note.setAttribute("role", "status");
  save.type = "button";
  save.textContent = "PNG";
  save.title = "Download this chart as a PNG picture";
  keepKeys(el);
  const state = () => ({ spec: model.get("spec"), columns: model.get("columns"), signals: model.get("signals") });
  picture.style.minHeight = `${(Number(state().spec.height) || 300) + 8}px`;
  let chart;
  try {
    chart = await mountChart(model, picture, state);
  } catch (error) {
    note.textContent = error.message;
    return;
  }
  const update = () => chart.update();
  model.on("change", update);
  save.onclick = async () => download("chart.png", await chart.png());
  const unwatch = await watchKernel(model, (gone) => {
    note.textContent = gone ? KERNEL_STOPPED : "";
    picture.style.opacity = gone ? 0.45 : 1;
  });
  return () => { model.off("change", update); unwatch(); chart.dispose(); };
}
export default { render };
