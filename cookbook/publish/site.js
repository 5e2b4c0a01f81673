// Theme and search of the static pages. It reads what the page holds and asks nothing of any other.
(() => {
  const root = document.documentElement;
  const stored = { get: () => { try { return localStorage.getItem("theme"); } catch { return null; } },
    set: (value) => { try { localStorage.setItem("theme", value); } catch { /* private mode: this page only */ } } };
  if (["dark", "light"].includes(stored.get())) root.dataset.theme = stored.get();
  const isDark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

  const words = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
  const times = (text, word) => text.toLowerCase().split(word).length - 1;
  // A name counts most, then a heading, then how often the words stand in the text; every word must be found.
  const score = ([title, page, , text], asked) => {
    let sum = 0;
    for (const word of asked) {
      const found = 40 * times(title, word) / Math.sqrt(title.length) + 4 * times(page, word) + Math.min(times(text, word), 5);
      if (!found) return 0;
      sum += found;
    }
    return sum;
  };
  const marked = (text, asked) => {
    const first = Math.min(...asked.map((word) => text.toLowerCase().indexOf(word)).filter((at) => at >= 0), text.length);
    const from = first === text.length ? 0 : Math.max(0, first - 60);
    const shown = (from ? "… " : "") + text.slice(from, from + 200) + (from + 200 < text.length ? " …" : "");
    const parts = shown.split(new RegExp(`(${asked.map((word) => word.replace(/[^\w]/g, "\\$&")).join("|")})`, "i"));
    return parts.map((part, i) => (i % 2 ? Object.assign(document.createElement("mark"), { textContent: part }) : part));
  };
  const item = ([title, page, address, text], asked) => {
    const link = Object.assign(document.createElement("a"), { href: address, textContent: title });
    const where = Object.assign(document.createElement("span"), { textContent: page === title ? "" : ` in ${page}` });
    const line = document.createElement("p");
    line.append(...marked(text, asked));
    const li = document.createElement("li");
    li.append(link, where, line);
    return li;
  };

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme"), field = document.getElementById("q");
    const say = () => { button.textContent = isDark() ? "Light theme" : "Dark theme"; };
    button.hidden = false;
    button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; stored.set(root.dataset.theme); say(); });
    say();
    const data = document.getElementById("index");
    if (!data) return;
    const index = JSON.parse(data.textContent), box = document.getElementById("results");
    const search = () => {
      const asked = words(field.value);
      box.hidden = !asked.length;
      const found = index.map((entry) => [score(entry, asked), entry]).filter(([points]) => points).sort((a, b) => b[0] - a[0]);
      document.getElementById("count").textContent = found.length ? `${found.length} found${found.length > 30 ? "; the first 30" : ""}` : `Nothing holds all of: ${asked.join(", ")}`;
      document.getElementById("found").replaceChildren(...found.slice(0, 30).map(([, entry]) => item(entry, asked)));
    };
    field.value = new URLSearchParams(location.search).get("q") ?? "";
    field.form.addEventListener("submit", (event) => { event.preventDefault(); search(); box.scrollIntoView(); });
    field.addEventListener("input", search);
    if (field.value) search();
  });
})();
