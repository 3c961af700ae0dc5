"""The live page: one document, no build step, no other host. All values are set as text, never as markup."""

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>LLM streams</title>
<style>
:root { color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif; }
body { margin: 1rem 2rem; }
h1 { font-size: 1.2rem; } h2 { font-size: 1rem; margin-top: 1.5rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid #8884; white-space: nowrap; }
td.wrap { white-space: normal; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
tr.stalled td { background: #d331; color: light-dark(#b00020, #ff8a80); font-weight: 600; }
.muted { opacity: .7; }
</style>
<h1>LLM streams</h1>
<p id="state" class="muted" role="status">loading</p>
<h2>In flight</h2>
<table><thead><tr><th>dialect<th>model<th>server<th>phase<th>silent<th>age<th>chunks<th>bytes</tr></thead>
<tbody id="live"></tbody></table>
<div id="sockets" hidden><h2>WebSockets</h2>
<table><thead><tr><th>dialect<th>model<th>server<th>open<th>quiet<th>in flight<th>responses<th>messages</tr></thead>
<tbody id="websockets"></tbody></table></div>
<h2>Recent</h2>
<table><thead><tr><th>dialect<th>model<th>server<th>outcome<th>first token<th>visible<th>end<th>chunks<th>buffering
<th>hop<th>quirks</tr></thead>
<tbody id="recent"></tbody></table>
<script>
"use strict";
const seconds = (value) => value === undefined || value === null ? "" : value.toFixed(value < 10 ? 3 : 1) + " s";
const signed = (ms) => ms === undefined || ms === null ? "" : (ms < 0 ? "" : "+") + ms.toFixed(1) + " ms";
const hop = (h) => h ? [signed(h.added_first_token_ms) || "joined", ...h.changes].join(", ") : "";
function fill(id, rows, columns, marked) {
  const body = document.getElementById(id);
  body.replaceChildren(...rows.map((row) => {
    const line = document.createElement("tr");
    if (marked(row)) line.className = "stalled";
    for (const [value, kind] of columns(row)) {
      const cell = document.createElement("td");
      cell.textContent = value;
      if (kind) cell.className = kind;
      line.append(cell);
    }
    return line;
  }));
}
async function refresh() {
  const state = document.getElementById("state");
  try {
    const answer = await fetch("/api/streams");
    const data = await answer.json();
    fill("live", data.in_flight, (r) => [[r.dialect], [r.model], [r.server], [r.phase + (r.stalled ? " (stalled)" : "")],
      [seconds(r.silence_seconds), "number"], [seconds(r.age_seconds), "number"], [r.output_chunks, "number"],
      [r.bytes, "number"]], (r) => r.stalled);
    document.getElementById("sockets").hidden = data.websockets.length === 0;
    fill("websockets", data.websockets, (r) => [[r.dialect], [r.model], [r.server], [seconds(r.age_seconds), "number"],
      [seconds(r.quiet_seconds), "number"], [r.in_flight, "number"], [r.responses, "number"], [r.messages, "number"]],
      () => false);
    fill("recent", data.recent, (r) => [[r.dialect], [r.model], [r.server], [r.outcome],
      [seconds(r.milestones_seconds.first_token), "number"], [seconds(r.milestones_seconds.first_visible_token), "number"],
      [seconds(r.milestones_seconds.end), "number"], [r.output_chunks, "number"], [r.buffering],
      [hop(r.hop), "wrap"], [r.quirks.join(", "), "wrap"]], () => false);
    state.textContent = data.in_flight.length + " in flight, " + data.recent.length + " recent";
  } catch (error) {
    state.textContent = "the analyzer does not answer";
  }
  setTimeout(refresh, 1000);
}
refresh();
</script>
</html>
"""
