// Tables whose rows stay the same elements while their values change, so that focus and selection survive updates.
// Values come from the wire: they are set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

export function seconds(value) {
  if (value === undefined || value === null) return "";
  if (value < 1) return `${(value * 1000).toFixed(value > 0 && value < 0.01 ? 1 : 0)} ms`;
  return `${value.toFixed(value < 100 ? 1 : 0)} s`;
}

export function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

export function drawing(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export const counts = (found) => Object.entries(found).map(([name, count]) => `${count} ${name}`).join(", ");

// cells: [value, class] each; a value may be {strip: digits}.
export function fill(table, rows, key, columns, { marked = () => "", open = null } = {}) {
  const body = table.tBodies[0];
  const known = new Map([...body.rows].map((line) => [line.dataset.key, line]));
  if (open && !body.classList.contains("openable")) openable(body, open);
  let place = body.firstElementChild;
  for (const row of rows) {
    const name = key(row);
    let line = known.get(name);
    known.delete(name);
    if (!line) {
      line = element("tr");
      line.dataset.key = name;
    }
    write(line, columns(row), marked(row));
    if (line === place) place = place.nextElementSibling;
    else body.insertBefore(line, place);
  }
  const focused = document.activeElement;
  for (const line of known.values()) {
    const next = line === focused ? line.nextElementSibling ?? line.previousElementSibling : null;
    line.remove();
    if (next) next.focus();
  }
  if (open) keepOneTabStop(body);
}

function write(line, cells, className) {
  if (line.className !== className) line.className = className;
  cells.forEach(([value, kind], number) => {
    const cell = line.cells[number] ?? line.appendChild(element("td"));
    if (kind !== undefined && cell.className !== kind) cell.className = kind;
    if (value && value.strip !== undefined) {
      strip(cell, value.strip);
      return;
    }
    const text = String(value ?? "");
    if (cell.textContent !== text) {
      cell.textContent = text;
      if (kind === "name") cell.title = text;
    }
  });
}

function strip(cell, digits) {
  if (cell.dataset.digits === digits) return;
  cell.dataset.digits = digits;
  let path = cell.querySelector("path");
  if (!path) {
    const svg = drawing("svg", { class: "strip", viewBox: "0 0 144 16", "aria-hidden": "true" });
    path = drawing("path", {});
    svg.append(drawing("line", { x1: 0, x2: 144, y1: 15.5, y2: 15.5 }), path);
    cell.replaceChildren(svg);
  }
  const bars = [...digits].map((digit, place) => (digit === "0" ? "" : `M${place * 3 + 1.5} 15V${15 - 2 - digit * 1.4}`));
  path.setAttribute("d", bars.join(""));
}

// The table is one stop of the Tab key; arrows, Home and End move inside it.
function openable(body, open) {
  body.classList.add("openable");
  const rowOf = (event) => event.target.closest("tr");
  body.addEventListener("click", (event) => {
    const line = rowOf(event);
    if (line && !String(getSelection())) open(line.dataset.key);
  });
  body.addEventListener("focusin", (event) => keepOneTabStop(body, rowOf(event)));
  body.addEventListener("keydown", (event) => {
    const line = rowOf(event);
    const moves = {
      ArrowDown: line.nextElementSibling,
      ArrowUp: line.previousElementSibling,
      Home: body.firstElementChild,
      End: body.lastElementChild,
    };
    if (event.key === "Enter" || event.key === " ") open(line.dataset.key);
    else if (event.key in moves) moves[event.key]?.focus();
    else return;
    event.preventDefault();
  });
}

function keepOneTabStop(body, wanted) {
  const stop = wanted ?? body.querySelector('tr[tabindex="0"]') ?? body.firstElementChild;
  for (const line of body.rows) {
    const index = line === stop ? 0 : -1;
    if (line.tabIndex !== index || !line.hasAttribute("tabindex")) line.tabIndex = index;
  }
}
