// The list of runs: filters, sorting, and two ticked runs to compare. What is chosen stands in the address, for the way back.
(() => {
  const table = document.querySelector("#runs");
  if (!table) return;
  const about = JSON.parse(document.querySelector("#about").textContent);
  const pairs = new Set(about.pairs);
  const body = table.tBodies[0], rows = [...body.rows];
  const fields = [...document.querySelectorAll("#filters [name]")];
  const order = new Map(rows.map((row, place) => [row, place])); // the newest first
  const words = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));

  const fits = (row, { name, value }) => {
    if (!value) return true;
    if (name === "text") return value.toLowerCase().split(/\s+/).every((word) => words.get(row).includes(word));
    return row.dataset[name].split("\n").includes(value);
  };
  const filter = () => {
    for (const row of rows) row.hidden = !fields.every((field) => fits(row, field));
    const shown = rows.filter((row) => !row.hidden).length;
    document.querySelector("#shown").value = `${shown} of ${rows.length} runs`;
    const chosen = new URLSearchParams(fields.filter((field) => field.value).map((field) => [field.name, field.value]));
    history.replaceState(null, "", chosen.size ? `#${chosen}` : location.pathname + location.search);
  };

  const compare = document.querySelector("#compare"), said = document.querySelector("#chosen");
  let ticked = []; // rows, in the order of their ticks
  const pair = () => ticked.toSorted((a, b) => order.get(b) - order.get(a)).map((row) => row.dataset.key).join("-");
  const tick = (row, on) => {
    ticked = ticked.filter((each) => each !== row);
    if (on) ticked.push(row);
    while (ticked.length > 2) ticked.shift().querySelector("input").checked = false;
    const two = ticked.length === 2, same = two && ticked[0].dataset.study === ticked[1].dataset.study;
    const there = same && pairs.has(pair());
    compare.disabled = !there;
    const folders = ticked.map((row) => row.cells[row.cells.length - 1].querySelector(".place").textContent);
    if (!two) said.value = ticked.length ? "Tick one more run." : "Tick two runs to compare them.";
    else if (there) said.value = `${folders[1]} and ${folders[0]}`;
    else if (!same) said.value = "These runs are of different studies: they cannot be compared.";
    else said.value = "These files do not hold this comparison. Run: diolkos-lab compare, with both folders.";
  };
  compare.addEventListener("click", () => { location.href = `compare/${pair()}.html`; });
  for (const row of rows) row.querySelector("input")?.addEventListener("change", (event) => tick(row, event.target.checked));

  const key = (row, column) => {
    const cell = row.cells[column];
    return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent.trim();
  };
  const sort = (head) => {
    const down = head.getAttribute("aria-sort") === "ascending", column = head.cellIndex;
    for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const compared = new Intl.Collator("en", { numeric: true }).compare;
    const keys = new Map(rows.map((row) => [row, key(row, column)]));
    rows.sort((a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      return (down ? -1 : 1) * (typeof x === "number" ? x - y : compared(x, y)) || order.get(a) - order.get(b);
    });
    body.append(...rows);
  };
  for (const head of table.querySelectorAll("th[data-sort]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(head));
    head.append(button);
  }

  const wanted = new URLSearchParams(location.hash.slice(1));
  for (const field of fields) {
    field.value = wanted.get(field.name) ?? "";
    field.addEventListener(field.tagName === "SELECT" ? "change" : "input", filter);
  }
  for (const bar of document.querySelectorAll(".bar")) bar.hidden = false;
  for (const row of rows) if (row.querySelector("input")?.checked) tick(row, true); // the browser may have kept ticks
  filter();
})();
