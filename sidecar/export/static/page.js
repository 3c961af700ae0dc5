// The page's live part: listens to server-sent events and writes what they say into the tables of the shell.

import { counts, element, fill, seconds } from "/rows.js";
import { isOpen, refresh, show, wire } from "/timeline.js";

const at = (id) => document.getElementById(id);
const RETRY_MS = 3000;
const QUIET_MS = 5000; // without an event: the analyzer is stuck, though the connection is there
const OUTCOMES = { complete: "good", client_disconnect: "", not_streamed: "warn", no_terminator: "warn", lost: "warn" };
const BUFFERING = { none: "", coalesced: "warn", buffered: "bad", inconclusive: "" };
const SEVERITY = { breaks_clients: "bad", warning: "warn", info: "" };

let source = null;
let heardAt = 0;
let gone = false;
let last = null;

function clock(date) {
  return date.toLocaleTimeString([], { hour12: false });
}

function notice(text, bad) {
  const line = at("notice");
  if (line.textContent !== text) line.textContent = text;
  line.className = bad ? "notice bad" : "notice";
  line.hidden = !text;
}

function live(data) {
  last = data;
  fill(at("live"), data.in_flight, (row) => row.id, (row) => [
    [row.model || "(no model)", "name"], [row.server], [row.dialect],
    [row.phase + (row.stalled ? " · stalled" : row.heartbeats ? ` · ${row.heartbeats} keep-alives` : "")],
    [seconds(row.silence_seconds), "number"], [{ strip: row.strip }], [seconds(row.first_token_seconds), "number"],
    [row.output_chunks, "number"], [row.output_tokens ?? "", "number"], [seconds(row.age_seconds), "number"],
  ], { marked: (row) => (row.stalled ? "stalled" : ""), open });
  const chips = Object.entries(data.phases).map(([phase, count]) => element("span", `${count} ${phase}`));
  if (data.stalled) chips.unshift(element("span", `${data.stalled} stalled`, "bad"));
  at("phases").replaceChildren(...chips);
  at("live-empty").textContent = data.total ? "" : nothing(data);
  const more = data.total - data.in_flight.length;
  at("live-more").hidden = more === 0;
  at("live-more").textContent = `and ${more.toLocaleString()} more; the stalled and the most silent are shown.`;
  sockets(data);
  at("state").textContent = `${data.total.toLocaleString()} in flight, ${data.stalled} stalled, at ${clock(new Date())}`;
  document.title = data.stalled ? `(${data.stalled} stalled) LLM streams` : "LLM streams";
  at("main").className = data.behind ? "old" : "";
  notice(data.behind ? `The analyzer is ${data.lag_seconds.toFixed(1)} s behind the traffic: what is shown is that old.` : "");
  if (isOpen()) refresh();
}

function nothing(data) {
  if (!data.proxies) return "No proxy is connected to this analyzer: nothing can be seen.";
  return "Nothing is in flight. Streams show up here as soon as a client asks for one through the proxy.";
}

function sockets(data) {
  at("sockets").hidden = data.sockets === 0;
  fill(at("websockets"), data.websockets, (row) => row.id, (row) => [
    [row.model || "(no model)", "name"], [row.server], [row.dialect], [seconds(row.age_seconds), "number"],
    [seconds(row.quiet_seconds), "number"], [row.in_flight, "number"], [row.responses, "number"], [row.messages, "number"],
  ]);
}

const signed = (ms) => (ms === null || ms === undefined ? "joined" : `${ms < 0 ? "" : "+"}${ms.toFixed(1)} ms`);

function quirks(row) {
  const info = row.quirks.length - row.notable_quirks.length;
  return [...row.notable_quirks, ...(info ? [`${info} info`] : [])].join(", ");
}

function ended(data) {
  fill(at("recent"), data.recent, (row) => row.id, (row) => {
    const ladder = row.milestones_seconds;
    return [
      [row.model || "(no model)", "name"], [row.server], [clock(new Date(row.ended_wall_seconds * 1000))],
      [row.outcome + (row.error_type && row.error_type !== row.outcome ? ` · ${row.error_type}` : ""), OUTCOMES[row.outcome] ?? "bad"],
      [seconds(ladder.headers), "number"], [seconds(ladder.first_token), "number"],
      [seconds(ladder.first_visible_token), "number"], [seconds(ladder.end), "number"], [row.output_chunks, "number"],
      [row.buffering, BUFFERING[row.buffering] ?? ""], [row.usage_state],
      [row.hop ? [signed(row.hop.added_first_token_ms), ...row.hop.changes].join(", ") : ""],
      [quirks(row), `wrap ${SEVERITY[row.worst_quirk] ?? ""}`],
    ];
  }, { open });
  fill(at("upstreams"), data.upstreams, (row) => `${row.server} ${row.model}`, (row) => [
    [row.model || "(no model)", "name"], [row.server], [row.exchanges, "number"],
    [seconds(row.first_token_p50_seconds), "number"], [seconds(row.first_token_p99_seconds), "number"],
    [counts(row.outcomes), Object.keys(row.outcomes).some((name) => (OUTCOMES[name] ?? "bad") === "bad") ? "wrap bad" : "wrap"],
    [counts(row.buffering), row.buffering.buffered ? "wrap bad" : "wrap"],
    [counts(row.usage), row.usage.missing ? "wrap warn" : "wrap"],
    [[counts(row.quirks), row.commonest_quirks.join(", ")].filter(Boolean).join(": "),
      row.quirks.breaks_clients ? "wrap bad" : row.quirks.warning ? "wrap warn" : "wrap"],
  ]);
  const none = data.recent.length ? "" : "Nothing has ended since the analyzer started.";
  at("recent-empty").textContent = none;
  at("upstreams-empty").textContent = none;
}

function listen() {
  source = new EventSource("/api/events");
  const heard = (tell) => (event) => {
    heardAt = performance.now();
    gone = false;
    tell(JSON.parse(event.data));
  };
  source.addEventListener("live", heard(live));
  source.addEventListener("ended", heard(ended));
  source.addEventListener("error", () => {
    lost();
    if (source.readyState === EventSource.CLOSED) setTimeout(again, RETRY_MS);
  });
}

function again() {
  source?.close();
  source = null;
  if (!document.hidden) listen();
}

function lost() {
  if (!gone) {
    const shown = last ? ` What is shown is from ${clock(new Date())} and old.` : "";
    notice(`The analyzer does not answer: it is gone, or too many pages are open.${shown} Trying again.`, true);
    at("main").className = "old";
    at("state").textContent = "not connected";
  }
  gone = true;
}

// A page that nobody looks at takes no place among the listeners, and no connection.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    source?.close();
    source = null;
  } else if (source === null) {
    heardAt = performance.now();
    listen();
  }
});

setInterval(() => {
  if (source !== null && source.readyState === EventSource.OPEN && performance.now() - heardAt > QUIET_MS) lost();
}, 1000);

function open(id) {
  location.hash = encodeURIComponent(id);
}

function followHash() {
  const id = decodeURIComponent(location.hash.slice(1));
  if (id) show(id);
}

wire();
addEventListener("hashchange", followHash);
heardAt = performance.now();
listen();
followHash();
