// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the page does beyond being read: colours by choice, live pictures, tables that sort and filter, downloads.
// Everything here is made by the script, so that without it nothing stands on the page that does nothing.
"use strict";
(() => {
  const $ = (query, root = document) => root.querySelector(query);
  const $$ = (query, root = document) => [...root.querySelectorAll(query)];

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  };

  // ---- what the page carries

  const unpacked = async (id) => {
    const bytes = Uint8Array.from(atob($(`#${id}`).textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };
  const once = (work) => { let kept; return () => (kept ??= work()); };
  const files = once(async () => JSON.parse(await unpacked("files")));
  const vega = once(async () => {
    const script = make("script");
    script.textContent = await unpacked("vega"); // its hash stands in the page's policy
    document.head.append(script);
    if (!window.vegaEmbed) throw new Error("the browser did not run Vega");
    return window.vegaEmbed;
  });

  const save = (name, content, type) => {
    const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
    const link = make("a", { href: address, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
  };
  const TYPES = { csv: "text/csv", pdf: "application/pdf", svg: "image/svg+xml" };
  const download = async (name) => {
    const file = (await files())[name];
    const content = file.bytes === undefined ? file : Uint8Array.from(file.bytes, (letter) => letter.charCodeAt(0));
    save(name.split("/").pop(), content, TYPES[name.split(".").pop()] ?? "application/octet-stream");
  };

  // ---- light and dark

  const remembered = (value) => {
    try {
      if (value !== undefined) localStorage.setItem("diolkos-colours", value);
      return localStorage.getItem("diolkos-colours");
    } catch { return null; } // a browser that keeps nothing
  };
  const night = window.matchMedia("(prefers-color-scheme: dark)");
  const choice = () => document.documentElement.dataset.theme ?? "auto";
  const dark = () => choice() === "dark" || (choice() === "auto" && night.matches);
  const choose = (value) => {
    document.documentElement.dataset.theme = value;
    redraw();
  };
  const theme = () => {
    const wanted = remembered();
    const chosen = ["auto", "light", "dark"].includes(wanted) ? wanted : "auto";
    document.documentElement.dataset.theme = chosen;
    const list = make("select", { id: "theme", onchange: () => choose(remembered(list.value) ?? list.value) });
    for (const value of ["auto", "light", "dark"]) list.append(make("option", { value }, value));
    list.value = chosen;
    $("main").prepend(make("p", { class: "tools top" }, make("label", { for: "theme" }, "Colours "), list));
    night.addEventListener("change", redraw);
  };

  // ---- pictures

  let colours, specs;
  const drawn = new Map(); // figure: what is known of its picture
  const COARSE = window.matchMedia("(pointer: coarse)").matches;

  // The specification for this page: its colours, its width, no legend (the buttons are one), and no dragging by finger.
  const fitted = (name, width) => {
    let text = JSON.stringify(specs[name]);
    if (dark()) text = text.replace(/#[0-9a-f]{6}(?=")/gi, (colour) => colours[colour.toLowerCase()] ?? colour);
    const spec = JSON.parse(text);
    spec.config.legend = { ...spec.config.legend, disable: true };
    spec.config.background = "transparent";
    if (COARSE) unzoom(spec);
    if (width < spec.usermeta.width) narrow(spec, Math.max(0.2, (width - spec.usermeta.beside) / (spec.usermeta.width - spec.usermeta.beside)));
    return spec;
  };
  const parts = (spec) => [...(spec.layer ?? []), ...(spec.concat ?? []), ...(spec.hconcat ?? []), ...(spec.vconcat ?? []),
    ...(spec.spec ? [spec.spec] : [])];
  const unzoom = (spec) => {
    if (spec.params) spec.params = spec.params.filter((each) => each.bind !== "scales");
    parts(spec).forEach(unzoom);
  };
  const wrapped = (lines, letters) => [lines].flat().join(" ").split(" ").reduce((all, word) => {
    const last = all.length - 1;
    if (last >= 0 && `${all[last]} ${word}`.length <= letters) all[last] += ` ${word}`;
    else all.push(word);
    return all;
  }, []);
  const narrow = (spec, share) => {
    if (spec.title?.subtitle) {
      spec.title.text = wrapped(spec.title.text, 100 * share);
      spec.title.subtitle = wrapped(spec.title.subtitle, 120 * share);
    }
    if (spec.vconcat) spec.vconcat = spec.vconcat.filter((each) => each.name !== "table"); // the page has one
    if (spec.hconcat || (spec.concat && spec.columns > 1)) {
      spec.vconcat = spec.hconcat ?? spec.concat;
      for (const key of ["hconcat", "concat", "columns"]) delete spec[key];
      share = Math.min(1, share * 2);
    }
    if (typeof spec.width === "number") spec.width = Math.max(90, Math.round(spec.width * share));
    parts(spec).forEach((each) => narrow(each, share));
  };

  const embed = async (place, spec) =>
    (await (await vega())(place, spec, { mode: "vega-lite", actions: false, renderer: "svg", ast: true, logLevel: 1 })).view;

  const draw = async (figure) => {
    const state = drawn.get(figure), turn = ++state.turn;
    const place = make("div", { class: "live", role: "img", "aria-label": $(".drawn", figure).getAttribute("aria-label") });
    state.view?.finalize();
    state.view = null;
    $(".live", figure)?.remove();
    $(".drawn", figure).after(place);
    try {
      const view = await embed(place, fitted(state.name, figure.clientWidth));
      if (turn !== state.turn) return view.finalize(); // drawn again meanwhile, by another choice
      state.view = view;
      if (state.hidden.size) await view.signal("hidden", [...state.hidden]).runAsync();
      figure.classList.add("alive");
    } catch (problem) { // the still picture stays
      place.remove();
      console.error(problem);
    }
  };
  // One in a folded chapter has no width; it is drawn again when somebody unfolds it.
  const redraw = () => { for (const [figure, state] of drawn) if (state.turn) figure.clientWidth ? draw(figure) : near.observe(figure); };

  const hide = async (figure, name, button) => {
    const state = drawn.get(figure);
    if (!state.hidden.delete(name)) state.hidden.add(name);
    button.setAttribute("aria-pressed", String(!state.hidden.has(name)));
    if (state.view) await state.view.signal("hidden", [...state.hidden]).runAsync();
    else await draw(figure);
  };

  // By day and in full width, as the still picture is, with the systems that are shown.
  const exported = async (figure, format) => {
    const { name, hidden } = drawn.get(figure);
    const place = make("div", { class: "aside" });
    document.body.append(place);
    try {
      const view = await embed(place, JSON.parse(JSON.stringify(specs[name])));
      if (hidden.size) await view.signal("hidden", [...hidden]).runAsync();
      if (format === "svg") save(`${name}.svg`, await view.toSVG(), TYPES.svg);
      else {
        const canvas = await view.toCanvas(2);
        save(`${name}.png`, await new Promise((done) => canvas.toBlob(done, "image/png")));
      }
      view.finalize();
    } finally { place.remove(); }
  };

  const near = new IntersectionObserver((seen) => {
    for (const each of seen) if (each.isIntersecting) { near.unobserve(each.target); draw(each.target); }
  }, { rootMargin: "400px" });
  const figures = (carried) => {
    for (const figure of $$("figure[data-chart]")) {
      const name = figure.dataset.chart, spec = specs[name];
      drawn.set(figure, { name, hidden: new Set(), view: null, turn: 0 });
      const { systems, zoom } = spec.usermeta;
      const legend = systems.map(({ name: system, colour }) => {
        const swatch = make("span", { class: "swatch", "aria-hidden": "true" });
        swatch.style.setProperty("--by-day", colour);
        swatch.style.setProperty("--by-night", colours[colour] ?? colour);
        const button = make("button", { type: "button", "aria-pressed": "true", title: "hide or show" }, swatch, system);
        button.addEventListener("click", () => hide(figure, system, button));
        return button;
      });
      if (systems.length > 1) $(".drawn", figure).before(make("div", { class: "legend", role: "group", "aria-label": "Systems shown" }, ...legend));
      const tools = make("p", { class: "tools" });
      if (zoom && !COARSE) {
        tools.append(make("span", {}, "Drag to move, Ctrl and wheel to zoom. "),
          make("button", { type: "button", class: "reset", onclick: () => draw(figure) }, "Reset"));
      }
      const get = (format, work) => make("button", { type: "button", class: `get-${format}`, onclick: work }, format.toUpperCase());
      tools.append("Save as ", get("svg", () => exported(figure, "svg")), get("png", () => exported(figure, "png")));
      const file = `pictures/${name}.pdf`;
      tools.append(carried.has(file) ? get("pdf", () => download(file)) : make("a", { href: file }, "PDF (in the folder pictures)"));
      figure.append(tools);
      near.observe(figure);
    }
    let width = window.innerWidth, waiting;
    window.addEventListener("resize", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => { if (window.innerWidth !== width) { width = window.innerWidth; redraw(); } }, 200);
    });
  };

  // ---- tables

  const PREFIX = { k: 1e3, M: 1e6, G: 1e9 };
  const value = (text) => {
    const plain = text.replaceAll("\u2212", "-").replace(/[\u202f\u00a0](?=\d)/g, "").replace(/^[(<>≥≤~\s]+/, "");
    if (plain.startsWith("∞")) return Infinity;
    if (/^\d{4}-\d\d-\d\d/.test(plain)) return NaN; // a date sorts as text
    const found = plain.match(/^[+-]?\d+(?:\.\d+)?/);
    if (!found) return NaN;
    const unit = plain.match(/\b([kMG])pps\b/);
    return Number(found[0]) * (unit ? PREFIX[unit[1]] : 1);
  };
  const compare = (first, second) => {
    const [a, b] = [value(first), value(second)];
    if (Number.isNaN(a) || Number.isNaN(b)) {
      if (Number.isNaN(a) && Number.isNaN(b)) return first.localeCompare(second, "en", { numeric: true });
      return Number.isNaN(a) ? 1 : -1;
    }
    return a === b ? 0 : a < b ? -1 : 1;
  };
  const sort = (table, column, head) => {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const each of $$("thead th", table)) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = $("tbody", table), text = (row) => row.cells[column]?.textContent.trim() ?? "";
    body.append(...[...body.rows].sort((a, b) => (down ? -1 : 1) * compare(text(a), text(b))));
  };
  const tables = (carried) => {
    for (const box of $$("[data-table]")) {
      const table = $("table", box), rows = [...$("tbody", table).rows];
      [...$("thead tr", table).cells].forEach((head, column) => {
        const button = make("button", { type: "button", class: "sort" }, ...head.childNodes);
        button.addEventListener("click", () => sort(table, column, head));
        head.append(button);
      });
      const tools = make("p", { class: "tools" });
      if (rows.length > 3) {
        const said = make("output");
        const field = make("input", { type: "search", placeholder: "filter", "aria-label": `Filter: ${$("table", box).getAttribute("aria-label") ?? "lines of the table"}` });
        field.addEventListener("input", () => {
          const wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean);
          for (const row of rows) row.hidden = !wanted.every((word) => row.textContent.toLowerCase().includes(word));
          said.value = field.value ? `${rows.filter((row) => !row.hidden).length} of ${rows.length} lines` : "";
        });
        tools.append(field, " ", said, " ");
      }
      const file = `tables/${box.dataset.table}.csv`;
      if (carried.has(file)) tools.append(make("button", { type: "button", class: "get-csv", onclick: () => download(file) }, "CSV"));
      if (tools.childNodes.length) box.before(tools);
    }
  };

  const raw = (carried) => {
    if (!carried.has("trials.csv")) return;
    const button = make("button", { type: "button", id: "raw", onclick: () => download("trials.csv") }, "CSV of all trials");
    $("#raw-samples")?.append(" ", button);
  };

  theme();
  const carried = new Set(JSON.parse($("#carried").textContent));
  tables(carried);
  raw(carried);
  unpacked("charts").then((text) => {
    ({ colours, specs } = JSON.parse(text));
    figures(carried);
  });
})();
