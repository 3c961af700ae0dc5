// One exchange in a dialog: what arrived when, the ladder, stalls, quirks and how to guard, what a hop did.

import { drawing, element, seconds } from "/rows.js";

const at = (id) => document.getElementById(id);
const WIDTH = 1000;
const TOP = 74;
const BASE = 150;
const MARKS = ["headers", "first_token", "first_visible_token", "terminator", "end"];

let shown = null;
let asking = false;
let over = false;
let opener = null;

export const isOpen = () => at("timeline").open && !over;

export function wire() {
  const dialog = at("timeline");
  at("timeline-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("close", () => {
    shown = null;
    history.replaceState(null, "", location.pathname);
    if (opener?.isConnected) opener.focus();
  });
}

export function show(id) {
  if (id !== shown) {
    at("timeline-title").textContent = "Timeline";
    at("timeline-body").replaceChildren(element("p", "loading …", "muted"));
  }
  shown = id;
  over = false;
  if (!at("timeline").open) {
    opener = document.activeElement?.closest("tr") ?? null;
    at("timeline").showModal();
  }
  refresh();
}

export async function refresh() {
  if (asking || shown === null) return;
  asking = true;
  const id = shown;
  try {
    const answer = await fetch(`/api/streams/${encodeURIComponent(id)}`);
    const found = await answer.json();
    if (id !== shown) return;
    over = !answer.ok || found.state === "ended";
    if (answer.ok) draw(found);
    else at("timeline-body").replaceChildren(element("p", `This exchange is ${found.error}: only the latest are kept.`, "empty"));
  } catch {
    if (id === shown) at("timeline-body").prepend(element("p", "The analyzer does not answer.", "notice bad"));
  } finally {
    asking = false;
    if (shown !== null && id !== shown) refresh();
  }
}

const ms = (value) => (value === null || value === undefined ? "" : seconds(value / 1000));

function draw(found) {
  const row = found.exchange;
  at("timeline-title").textContent = `${row.model || "(no model)"} at ${row.server}`;
  const parts = [verdict(found), picture(found), element("h3", "Ladder"), ladder(found), element("h3", "Arrivals"), arrivals(found)];
  if (found.stalls.length) parts.push(element("h3", "Stalls"), stalls(found));
  parts.push(element("h3", found.state === "ended" ? "Quirks" : "Quirks so far"), quirks(found.quirks));
  if (found.hop) parts.push(element("h3", "Across the hop"), hop(found.hop));
  const body = at("timeline-body");
  body.dataset.id = row.id;
  body.dataset.state = found.state;
  body.replaceChildren(...parts);
}

function verdict(found) {
  const row = found.exchange;
  const box = element("div");
  if (found.state === "ended") {
    const status = found.status ? `, HTTP ${found.status}` : "";
    box.append(element("p", `${row.outcome}: ${found.words}${status}.`, row.outcome === "complete" ? "good" : "bad"));
    if (found.advice) box.append(element("p", found.advice));
    const told = [
      ["dialect", row.dialect], ["finish reason", row.finish_reason], ["terminator", row.terminator], ["error", row.error_type],
      ["buffering", [found.buffering.verdict, found.buffering.why].filter(Boolean).join(": ")],
      ["usage", row.usage ? `${row.usage_state}: ${Object.entries(row.usage).map((pair) => pair.join(" ")).join(", ")}` : row.usage_state],
      ["tool calls", row.tool_calls.join(", ")], ["id", row.id],
    ];
    box.append(pairs(told));
  } else {
    const words = `${row.phase}, silent for ${seconds(row.silence_seconds)}${row.stalled ? ": stalled" : ""}`;
    box.append(element("p", words, row.stalled ? "bad" : ""));
    box.append(pairs([["dialect", row.dialect], ["keep-alives", row.heartbeats || ""], ["bytes", row.bytes], ["id", row.id]]));
  }
  return box;
}

function pairs(rows) {
  const list = element("dl");
  for (const [name, value] of rows) {
    if (value === null || value === undefined || value === "") continue;
    list.append(element("dt", name), element("dd", value));
  }
  return list;
}

function picture(found) {
  const end = Math.max(found.until_ms, 1);
  const x = (value) => 20 + (Math.min(Math.max(value, 0), end) / end) * (WIDTH - 40);
  const label = `Timeline: ${found.events} events in ${ms(found.until_ms)}; the figures are below.`;
  const svg = drawing("svg", { class: "timeline", viewBox: `0 0 ${WIDTH} 180`, role: "img", "aria-label": label });
  const block = (kind, from, until) =>
    svg.append(drawing("rect", { class: kind, x: x(from), y: TOP, width: Math.max(x(until) - x(from), 1), height: BASE - TOP }));
  for (const stall of found.stalls) block("stall", stall.since_ms, stall.until_ms ?? end);
  for (const gap of found.longest_gaps.slice(0, 3)) {
    if (gap.gap_ms > end / 25) block("gap", gap.at_ms, gap.at_ms + gap.gap_ms);
  }
  svg.append(drawing("line", { class: "axis", x1: 20, x2: WIDTH - 20, y1: BASE, y2: BASE }));
  const bars = found.arrivals.map(([when, count]) => `M${x(when).toFixed(1)} ${BASE}V${(BASE - Math.min(12 + 9 * Math.log2(count), BASE - TOP - 8)).toFixed(1)}`);
  svg.append(drawing("path", { class: "arrival", d: bars.join("") }));
  marks(svg, found, x);
  for (let step = 0; step <= 4; step += 1) {
    const text = drawing("text", { x: x((end * step) / 4), y: BASE + 18, "text-anchor": ["start", "middle", "middle", "middle", "end"][step] });
    text.textContent = ms((end * step) / 4);
    svg.append(text);
  }
  return svg;
}

function marks(svg, found, x) {
  const reached = MARKS.filter((name) => name in found.ladder_ms).map((name) => [found.ladder_ms[name], name]);
  reached.sort(([one], [other]) => one - other);
  reached.forEach(([when, name], number) => {
    const y = 12 + (number % 5) * 12;
    const right = x(when) > WIDTH / 2;
    svg.append(drawing("line", { class: name === "end" ? "mark end" : "mark", x1: x(when), x2: x(when), y1: y, y2: BASE }));
    const text = drawing("text", { class: "mark-name", x: x(when) + (right ? -4 : 4), y: y + 4, "text-anchor": right ? "end" : "start" });
    text.textContent = name.replaceAll("_", " ");
    svg.append(text);
  });
}

function ladder(found) {
  const list = pairs(Object.entries(found.ladder_ms).sort(([, one], [, other]) => one - other)
    .map(([name, when]) => [name.replaceAll("_", " "), ms(when)]));
  if (found.from !== "request_sent") list.append(element("dt", "counted from"), element("dd", found.from.replaceAll("_", " ")));
  return list.childElementCount ? list : element("p", "Nothing was reached.", "empty");
}

function arrivals(found) {
  const gaps = found.gaps_ms;
  const longest = found.longest_gaps.map((gap) => `${ms(gap.gap_ms)} after ${ms(gap.at_ms)}`).join("; ");
  const box = pairs([
    ["events", `${found.events} in ${found.reads} reads, ${found.exchange.output_chunks} with output`],
    ["gaps between outputs", gaps.max === null ? "none" : `p50 ${ms(gaps.p50)}, p99 ${ms(gaps.p99)}, longest ${ms(gaps.max)}`],
    ["longest silences", longest],
  ]);
  if (!found.arrivals_complete) box.append(element("dt", "drawn"), element("dd", "only the first arrivals of this long stream, and its last"));
  return box;
}

function stalls(found) {
  return pairs(found.stalls.map((stall) => [
    stall.phase, `from ${ms(stall.since_ms)} ${stall.until_ms === null ? "on: it still hangs" : `to ${ms(stall.until_ms)}`}`,
  ]));
}

function quirks(rows) {
  if (!rows.length) return element("p", "None was seen.", "empty");
  const box = element("div");
  for (const row of rows) {
    const one = element("div", undefined, `quirk ${row.severity}`);
    const title = element("p");
    title.append(element("strong", row.id), ` (${row.severity}): `, ...worded(row.summary));
    const lines = [["Breaks", row.breaks, ""], ["Guard", row.guard, ""], ["Seen", row.reference, "muted"]].map(([name, text, kind]) => {
      const line = element("p", undefined, kind);
      line.append(`${name}: `, ...worded(text));
      return line;
    });
    one.append(title, ...lines);
    box.append(one);
  }
  return box;
}

// The registry's texts set names between backticks.
const worded = (text) => text.split("`").map((part, number) => (number % 2 ? element("code", part) : part));

function hop(found) {
  const signed = (value) => (value === null ? "" : `${value < 0 ? "" : "+"}${value.toFixed(1)} ms`);
  const side = (one) => `${one.server}: ${one.outcome}, ${one.output_chunks} chunks in ${one.reads} reads, buffering ${one.buffering}`;
  return pairs([
    ["client's side", side(found.outer)], ["upstream's side", side(found.inner)], ["joined by", found.joined_by.replaceAll("_", " ")],
    ["added to first token", signed(found.added_first_token_ms)], ["added to end", signed(found.added_end_ms)],
    ["request held for", signed(found.request_delay_ms)], ["changes", found.changes.join(", ") || "none"],
    ["quirks added", found.quirks_added.join(", ")], ["quirks removed", found.quirks_removed.join(", ")],
  ]);
}
