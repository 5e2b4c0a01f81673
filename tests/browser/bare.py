"""Panels and charts on a bare page, without JupyterLab and kernel: one state at one width, as fast as it draws."""

from __future__ import annotations

import base64
from typing import Any

from cookbook.charts import live

# Stands in for the widget's model, and keeps the view that a chart is drawn with.
_PAGE = """async ({bundle, esm, css}) => {
  document.head.append(Object.assign(document.createElement('style'), {textContent: 'body { margin: 0; }' + css}));
  const load = (text) => import(URL.createObjectURL(new Blob([text], {type: 'text/javascript'})));
  const embed = (await load(bundle)).default;
  globalThis.__cookbookVega = Promise.resolve(async (el, ...more) => {
    const drawn = await embed(el, ...more);
    window.view = drawn.view;
    return drawn;
  });
  const runtime = { get: () => '', comm_live: true, on: (_, tell) => { window.look = tell; }, off() {} };
  window.kernel = (live) => { runtime.comm_live = live; window.look(); };
  const unpack = (columns) => Object.fromEntries(Object.entries(columns).map(([name, each]) => {
    if (Array.isArray(each)) return [name, each];
    return [name, new DataView(Uint8Array.from(atob(each), (letter) => letter.charCodeAt(0)).buffer)];
  }));
  const made = {};
  for (const [kind, text] of Object.entries(esm)) made[kind] = (await load(text)).default.render;
  window.draw = async (kind, state, width) => {
    window.dispose?.();
    window.told = {};
    const take = (news) => ({ ...news, ...(news.columns && { columns: unpack(news.columns) }) });
    let now = take(state);
    const model = {
      get: (name) => now[name] ?? 'IPY_MODEL_', off() {}, send() {},
      on: (what, tell) => { window.told[what] = tell; },
      widget_manager: { get_model: async () => runtime },
    };
    window.change = async (news) => { now = { ...now, ...take(news) }; for (const what of ['change:shown', 'change']) await window.told[what]?.(); };
    const el = Object.assign(document.createElement('main'), { style: `width: ${width}px` });
    document.body.replaceChildren(el);
    window.dispose = await made[kind]({ model, el });
    await document.fonts.ready;
  };
}"""  # noqa: E501
# What a reader could not see of a chart: text outside its box, or cut short, or a plot that has no room.
_FAULTS = """async ([least, slack]) => {
  const panel = document.querySelector('.cookbook-panel, .cookbook-chart'), found = [];
  const picture = panel.querySelector('.vega-embed svg, .vega-embed canvas');
  if (!picture) return ['nothing is drawn'];
  const box = picture.getBoundingClientRect(), outer = picture.closest('.ck-figure')?.getBoundingClientRect() ?? box;
  const [wide, high] = ['width', 'height'].map((name) => window.view.signal(name));
  if (wide < least || high < least) found.push(`the plot is ${wide} x ${high} px`);
  for (const el of [document.documentElement, panel]) {
    if (el.scrollWidth > el.clientWidth) found.push(`scrolls sideways: ${el.scrollWidth} px in ${el.clientWidth} px`);
  }
  if (box.right > outer.right + 0.5 || box.bottom > outer.bottom + 0.5) found.push('the picture is cut at its frame');
  const texts = [...picture.querySelectorAll('text')].filter((text) => text.textContent.trim() && Number(text.getAttribute('opacity') ?? 1) > 0);
  for (const text of texts) {
    const at = text.getBoundingClientRect(), said = text.textContent;
    if (at.left < box.left - slack || at.right > box.right + slack || at.top < box.top - slack || at.bottom > box.bottom + slack)
      found.push(`outside: ${said}`);
    if (said.includes('…')) found.push(`cut short: ${said}`);
  }
  const keys = [...picture.querySelectorAll('.role-legend-label text')].map((text) => [text.textContent, text.getBoundingClientRect()]);
  for (const [one, a] of keys) for (const [other, b] of keys) {
    if (a.left < b.left && b.left < a.right - 2 && a.top < b.bottom - 2 && b.top < a.bottom - 2) found.push(`in the legend, ${one} covers ${other}`);
  }
  const image = Object.assign(new Image(), { src: await window.view.toImageURL('png', 2) });
  await image.decode();
  if (Math.abs(image.width - 2 * box.width) > 4) found.push(`PNG of ${image.width} px for ${box.width} px`);
  return found;
}"""  # noqa: E501


def _carried(columns: dict[str, Any]) -> dict[str, Any]:
    sent = live.packed(columns)
    return {name: base64.b64encode(x).decode() if isinstance(x, bytes) else x for name, x in sent.items()}


def state_of(widget: Any) -> dict[str, Any]:
    """What the browser is sent of a panel or a chart."""
    names = ("spec", "signals") if isinstance(widget, live.LiveChart) else ("shape", "specs", "shown")
    return {name: getattr(widget, name) for name in names} | {"columns": _carried(widget.columns)}


class Bare:
    """A page that shows one panel or chart after the other."""

    def __init__(self, page: Any) -> None:
        from cookbook.panels import Panel

        page.set_content('<!doctype html><html lang="en"><title>One panel</title><body></body></html>')
        kinds = {"panel": Panel, "chart": live.LiveChart}
        page.evaluate(
            _PAGE,
            {
                "bundle": live.bundle_source(),
                "css": Panel._css,
                "esm": {name: each._esm for name, each in kinds.items()},
            },
        )
        self.page = page

    def draw(self, widget: Any, width: int) -> None:
        """Show one state of a widget, so many pixels wide."""
        kind, self.sent = "chart" if isinstance(widget, live.LiveChart) else "panel", state_of(widget)
        self.page.evaluate("([kind, state, width]) => window.draw(kind, state, width)", [kind, self.sent, width])

    def change(self, widget: Any) -> None:
        """Send what has changed of the widget, as a kernel does, to what is drawn."""
        state = state_of(widget)
        news = {name: value for name, value in state.items() if value != self.sent[name]}
        self.page.evaluate("(news) => window.change(news)", news)
        self.sent = state

    def kernel(self, live: bool) -> None:
        """Tell the panel that the kernel behind it is gone, or back."""
        self.page.evaluate("(live) => window.kernel(live)", live)

    def faults(self, least: int = 120, slack: float = 1.5) -> list[str]:
        """What is wrong with the chart: see `_FAULTS`."""
        return list(self.page.evaluate(_FAULTS, [least, slack]))
